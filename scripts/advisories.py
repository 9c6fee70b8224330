"""Known vulnerabilities in what the lock files name: `.tools-venv/bin/python scripts/advisories.py`.

Runs pip-audit. The exit code is 1 if there are any, and also if the advisory service could not be asked: then nothing
is known, which is not the same as nothing being wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from lock import FOLDER, LOCKS, LOWEST


def main() -> int:
    """Exit code: 0 if every package was looked up and none has a known vulnerability."""
    command = [Path(sys.executable).with_name("pip-audit"), "--disable-pip", "--require-hashes", "--format", "json"]
    command += ["--progress-spinner", "off", "--timeout", "20"]
    known, unknown, asked, why = set(), set(), 0, ""
    for name in LOCKS.keys() - {LOWEST}:
        done = subprocess.run([*command, "-r", FOLDER / f"{name}.txt"], capture_output=True, text=True)
        if not done.stdout:
            why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
            continue
        for package in json.loads(done.stdout)["dependencies"]:
            asked += "vulns" in package
            if "vulns" not in package:
                unknown.add(f"{package['name']}: {package['skip_reason']}")
            for found in package.get("vulns", ()):
                fixed = ", ".join(found["fix_versions"]) or "none"
                known.add(f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed} ({name}.txt)")
    if asked == 0:
        why = why or f"what answers knows none of {len(unknown)} packages"
        print(f"audit: nothing was checked, the advisory service cannot be reached ({why:.200})", file=sys.stderr)
        return 1
    print("\n".join(sorted(known | unknown)) or f"audit: no known vulnerability in {asked} packages")
    return 1 if known or unknown or why else 0


if __name__ == "__main__":
    sys.exit(main())
