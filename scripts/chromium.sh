#!/usr/bin/env bash
# Chromium for the tests of the report page: nothing to do where there is one, else Debian's package (needs root).
set -euo pipefail
if command -v chromium >/dev/null 2>&1; then
  exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ]; then
  echo "chromium.sh: no chromium, and no apt-get as root to install it; the tests of the page will be skipped" >&2
  [ -z "${CI:-}${TAILRANK_CI:-}" ]
  exit
fi
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core; }
install >/dev/null 2>&1 || { apt-get update -q >/dev/null && install >/dev/null; }
command -v chromium
