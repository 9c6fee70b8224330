"""One HTML file: the page, its style, its modules and the data, with a policy that lets nothing else in.

Modules are plain JavaScript files that import from each other by name. They are put into one script, each in a
function of its own, in the order they need each other. The script and the style are allowed by their hashes only
(Content-Security-Policy), no text of the page is ever parsed as HTML (trusted types), and the data is JSON in which
no tag can begin.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from tailrank._system.atomic import write_bytes
from tailrank.report.subject import Subject

LIMIT = 1_000_000
"""Bytes of an ordinary report; beyond them tables and episodes of all runs but a few are left out."""
LEFT_OUT = "Left out to keep the file small: write a report of this run alone."
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.M)
EXPORT = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.M)


def save(subject: Subject, path: str | Path) -> int:
    """Write the report to `path`, all or nothing; the bytes written."""
    text = page(fitting(subject)).encode(errors="backslashreplace")
    write_bytes(Path(path), text)
    return len(text)


def fitting(subject: Subject) -> dict[str, Any]:
    """The data of the page; if it would be too large, without the details of most runs and without other policies."""
    data = subject.data()
    most = len(data["policies"])
    while most > 1 and _large(data):
        most = max(1, most // 2)
        for part in data["policies"][most:]:
            for name in ("table", "episodes", "domain", "maps", "film"):
                part[name], part["absent"][name] = None, LEFT_OUT
    if _large(data):
        # Copies: a problem keeps its data for the next report.
        data["problems"] = [problem | {"best": []} for problem in data["problems"]]
    return data


def _large(data: dict[str, Any]) -> bool:
    return len(as_json(data).encode()) > LIMIT - len(bundle()) - 40_000


def page(data: dict[str, Any], *, live: bool = False) -> str:
    """The whole page as text. live: it may ask the server that it came from for news."""
    style, script = asset("style.css"), bundle()
    rules = content_policy(style, script, live=live)
    parts = {
        "title": html.escape(f"{data['title']}: risk report"),
        "policy": html.escape(rules),
        "style": style,
        "script": script,
        "data": as_json(data),
    }
    text = asset("page.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], text)


def content_policy(style: str, script: str, *, live: bool) -> str:
    """The Content-Security-Policy of the page."""
    ask = "'self'" if live else "'none'"
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; connect-src {ask}; "
        "img-src data:; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def as_json(data: object) -> str:
    """JSON that is safe inside a script element: no tag, comment or line end of JavaScript can occur in it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


@lru_cache(maxsize=1)
def bundle() -> str:
    """All modules as one script, each after those it imports from."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        source = asset(f"{name}.js")
        for _, other in IMPORT.findall(source):
            add(other)
        names = ", ".join(EXPORT.findall(source))
        body = IMPORT.sub(lambda match: f"const {{{match[1]}}} = modules.{match[2]};\n", source)
        body = re.sub(r"^export ", "", body, flags=re.M)
        done[name] = f"modules.{name} = (() => {{\n{body}return {{ {names} }};\n}})();\n"

    add("main")
    return '(() => {\n"use strict";\nconst modules = {};\n' + "".join(done.values()) + "})();\n"


@lru_cache(maxsize=32)
def asset(name: str) -> str:
    """The text of a file of the page."""
    text = resources.files("tailrank.report").joinpath("page", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")
