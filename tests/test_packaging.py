"""The lock files agree with pyproject.toml, and the checks of what is installed notice what they are for."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tailrank

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))
from importlib.metadata import PathDistribution  # noqa: E402

import advisories  # noqa: E402
import audit  # noqa: E402
import lock  # noqa: E402


@pytest.mark.parametrize("name", lock.LOCKS)
def test_the_lock_files_agree_with_pyproject(name):
    assert lock.problems(name, lock.tables()) == []
    assert "torch" not in lock.versions(name)


def test_a_changed_requirement_is_noticed():
    changed = lock.tables()
    changed["core"] = [*changed["core"][1:], "numpy>=99"]
    digest, version = lock.problems("dev", changed)
    assert "has changed" in digest
    assert "numpy>=99 is asked for, 2." in version
    found = "\n".join(lock.problems("build", changed | {"build": ["leftpad"]}))
    assert "leftpad is asked for, nothing is locked" in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t + "leftpad==1.0\n", "requirements, of which"),
        (lambda t: t + "--index-url https://example.org/simple\n", "an address"),
        (lambda t: t.replace("\npip==", "\npip==1."), "pip>=25.1 is asked for, 1."),
    ],
)
def test_a_lock_file_that_was_edited_is_noticed(change, message, tmp_path, monkeypatch):
    text = (lock.FOLDER / "build.txt").read_text()
    monkeypatch.setattr(lock, "FOLDER", tmp_path)
    (tmp_path / "build.txt").write_text(text)
    assert lock.problems("build", lock.tables()) == []
    (tmp_path / "build.txt").write_text(change(text))
    assert message in "\n".join(lock.problems("build", lock.tables()))


@pytest.fixture
def installed(tmp_path):
    """A package as pip leaves it."""
    info = tmp_path / "thing-1.0.dist-info"
    info.mkdir()
    (tmp_path / "thing.py").write_text("x = 1\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\nLicense-Expression: MIT\n")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nTag: cp311-cp311-manylinux_2_17_x86_64\n")
    names = ("METADATA", "WHEEL", "RECORD")
    (info / "RECORD").write_text(
        f"thing.py,sha256={digest},6\n" + "".join(f"thing-1.0.dist-info/{n},,\n" for n in names)
    )
    return PathDistribution(info)


def origin(package, version="1.0"):
    return "\n".join(audit.origin_problems(package, {"thing": version} if version else {}))


def test_what_is_installed_is_compared_with_what_was(installed, tmp_path, monkeypatch):
    info = tmp_path / "thing-1.0.dist-info"
    assert [*audit.file_problems(installed), *audit.strays([installed], tmp_path), origin(installed)] == [""]
    (tmp_path / "thing.py").write_text("x = 2\n")
    assert list(audit.file_problems(installed)) == ["thing: thing.py has changed since it was installed"]
    (tmp_path / "thing.py").write_text("x = 1\nx = 3\n")
    assert list(audit.file_problems(installed)) == ["thing: thing.py has changed since it was installed"]
    monkeypatch.setattr(audit, "MAY_GROW", {"thing.py"})
    assert not list(audit.file_problems(installed))
    (tmp_path / "thing.py").unlink()
    assert list(audit.file_problems(installed)) == ["thing: thing.py is missing"]
    (tmp_path / "evil.pth").write_text("import os\n")
    assert list(audit.strays([installed], tmp_path)) == ["evil.pth: belongs to no package"]
    assert "the lock files say 2.0" in origin(installed, "2.0")
    assert "in no lock file" in origin(installed, None)
    (info / "direct_url.json").write_text(json.dumps({"url": "https://example.org/thing.zip"}))
    assert "was installed from https://example.org/thing.zip" in origin(installed)
    (info / "direct_url.json").unlink()
    (info / "WHEEL").write_text("Tag: cp311-cp311-linux_x86_64\n")
    assert "built here" in origin(installed)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("MIT AND PSF-2.0", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-2.0-only OR MIT", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("", False),
        ("MITX", False),
        ("BSD-3-Clause AND (Apache-2.0 OR MIT)", True),
        ("Other/Proprietary License", False),
    ],
)
def test_licences(expression, expected):
    assert audit.allowed(expression) is expected


def answers(monkeypatch, output, error=""):
    done = subprocess.CompletedProcess([], 0, output, error)
    monkeypatch.setattr(advisories.subprocess, "run", lambda *args, **options: done)
    return advisories.main()


def test_an_audit_that_was_not_made_is_no_success(monkeypatch, capsys):
    """What pip-audit prints where the advisory service knows the packages, knows none, and cannot be reached."""
    clean = {"name": "pip", "version": "26.3", "vulns": []}
    bad = clean | {"vulns": [{"id": "PYSEC-1", "fix_versions": ["27"]}]}
    skipped = {"name": "numpy", "skip_reason": "Dependency not found"}
    cases = [
        ([clean], 0, "no known vulnerability"),
        ([bad], 1, "pip 26.3: PYSEC-1, fixed in 27"),
        ([clean, skipped], 1, "numpy: Dependency not found"),
        ([skipped], 1, "nothing was checked"),
    ]
    for packages, code, text in cases:
        assert answers(monkeypatch, json.dumps({"dependencies": packages})) == code
        said = capsys.readouterr()
        assert text in said.out + said.err
    assert answers(monkeypatch, "", "ConnectionError: no route") == 1
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "nothing was checked" in said.err
    assert "no route" in said.err


def test_the_version_is_the_same_everywhere():
    root = SCRIPTS.parent
    declared = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert tailrank.__version__ == declared
    assert f"\nversion: {declared}\n" in (root / "CITATION.cff").read_text(encoding="utf-8")
    assert (root / "CHANGELOG.md").read_text(encoding="utf-8").startswith(f"# Changes\n\n## {declared} ")
