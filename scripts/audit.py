"""Check the packages of this environment without a network: `python scripts/audit.py [--list]`.

Each one has the version that the lock files give it, came from the package index as a wheel (native code was not
built here), has the files it was installed with and no others, and a licence that is allowed; and what a user gets
without extras is what is named here and no larger. Compiled .pyc files have no hash to be checked against.
Known vulnerabilities are another matter: `make audit` asks for them (scripts/advisories.py).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import site
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

import lock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CORE = {
    "click",
    "cloudpickle",
    "farama-notifications",
    "filelock",
    "gymnasium",
    "llvmlite",
    "markdown-it-py",
    "mdurl",
    "numba",
    "numpy",
    "pygments",
    "rich",
    "safetensors",
    "scipy",
    "threadpoolctl",
    "typing-extensions",
}
"""What `pip install tailrank` brings."""
CORE_MEGABYTES = 400
ALLOWED = re.compile(
    r"(MIT|MIT-CMU|0?BSD|BSD-[23]-Clause|Apache-2\.0|PSF-2\.0|MPL-2\.0|Zlib|CC0-1\.0|LLVM-exception|Public Domain)"
)
SPELLINGS = {
    "MIT License": "MIT",
    "BSD License": "BSD",
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
EXCEPTIONS = {
    "docutils": "Public Domain",  # parts are BSD; the GPL is that of an Emacs mode, which is not installed
    "pygame-ce": "LGPL-2.1",  # comes with highway-env, is loaded as it is and not handed on
}

MAY_GROW = {"certifi/cacert.pem"}
"""Files to which the network that a machine is in may have added: here the certificate of its proxy."""


def name_of(package: Distribution) -> str:
    """The name as lock files spell it."""
    return canonicalize_name(package.metadata["Name"])


def licence(package: Distribution) -> str:
    """The licence that the package declares, as an SPDX expression where it can be told."""
    meta = package.metadata
    if name_of(package) in EXCEPTIONS:
        return EXCEPTIONS[name_of(package)]
    if "License-Expression" in meta:
        return meta["License-Expression"]
    declared = [line.split(" :: ")[-1] for line in meta.get_all("Classifier") or [] if line.startswith("License ::")]
    text = (meta.get("License") or "").strip().split("\n")[0]
    return " AND ".join(SPELLINGS.get(part, part) for part in declared or [text])


def allowed(expression: str) -> bool:
    """Whether one of the alternatives has only parts that are allowed."""
    return any(
        all(ALLOWED.fullmatch(part.strip("() ")) for part in re.split(r" AND | WITH ", choice))
        for choice in expression.split(" OR ")
    )


def origin_problems(package: Distribution, versions: dict[str, str]) -> Iterator[str]:
    """What is wrong with where a package comes from."""
    name, url = name_of(package), package.read_text("direct_url.json")
    if name == "tailrank":
        place = json.loads(url or "{}")
        if place.get("url") != lock.ROOT.as_uri() or not place.get("dir_info", {}).get("editable"):
            yield f"tailrank: not the editable install of this folder ({place.get('url')})"
        return
    if url is not None:
        yield f"{name}: was installed from {json.loads(url)['url']}"
    if name not in versions:
        yield f"{name} {package.version}: is in no lock file; remove it with: pip uninstall {name}"
    elif versions[name] != package.version:
        yield f"{name} {package.version}: the lock files say {versions[name]}"
    if re.search(r"^Tag: \S+-(linux|macosx_\d+_\d+_universal2\.local)_", package.read_text("WHEEL") or "", re.M):
        yield f"{name}: its native code was built here, from source"


def file_problems(package: Distribution) -> Iterator[str]:
    """Files of a package that are missing or differ from what was installed."""
    for file in package.files or ():
        path = Path(str(file.locate()))
        if file.hash is None:
            continue
        if not path.is_file():
            yield f"{name_of(package)}: {file} is missing"
            continue
        data = path.read_bytes()
        if str(file) in MAY_GROW and file.size is not None:
            data = data[: file.size]
        digest = hashlib.new(file.hash.mode, data).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != file.hash.value:
            yield f"{name_of(package)}: {file} has changed since it was installed"


def strays(packages: list[Distribution], folder: Path) -> Iterator[str]:
    """Files among the packages that belong to none of them."""
    known = {Path(str(file.locate())).resolve() for package in packages for file in package.files or ()}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".pyc" and path.resolve() not in known:
            yield f"{path.relative_to(folder)}: belongs to no package"


def core(packages: dict[str, Distribution]) -> set[str]:
    """The packages that tailrank needs without extras, and those that these need."""
    found, open_ = set(), ["tailrank"]
    while open_:
        for line in packages[open_.pop()].requires or ():
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found.add(name)
                open_.append(name)
    return found


def main(arguments: list[str]) -> int:
    """Exit code: 0 if nothing is wrong."""
    folder = Path(site.getsitepackages()[0])
    packages = {name_of(package): package for package in distributions(path=[str(folder)])}
    versions = lock.versions("dev") | lock.versions("build")
    found = [f"{name} {versions[name]}: is locked and not installed" for name in sorted(versions.keys() - packages)]
    for name, package in sorted(packages.items()):
        found += [*origin_problems(package, versions), *file_problems(package)]
        if not allowed(licence(package)) and name not in EXCEPTIONS:
            found.append(f"{name}: its licence {licence(package)!r} is not on the list in scripts/audit.py")
    found += strays(list(packages.values()), folder)
    needed = core(packages)
    found += [f"{name}: {'new' if name in needed else 'no longer'} among what users get" for name in needed ^ CORE]
    sizes = (Path(str(file.locate())) for name in needed for file in packages[name].files or ())
    megabytes = sum(path.stat().st_size for path in sizes if path.is_file() and path.suffix != ".pyc") / 1e6
    if megabytes > CORE_MEGABYTES:
        found.append(f"what users get takes {megabytes:.0f} MB, more than {CORE_MEGABYTES}")
    if "--list" in arguments:
        print("\n".join(f"{name} {x.version}: {licence(x)}" for name, x in sorted(packages.items())))
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    if not found:
        counts = Counter(licence(package) for package in packages.values()).most_common(4)
        most = ", ".join(f"{number} {text}" for text, number in counts)
        print(f"{len(packages)} packages as locked ({most}, ...); users get {len(needed)} of them, {megabytes:.0f} MB")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
