"""Plain values as the text of a TOML file; Python only reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any


def toml_of(values: Mapping[str, Any], tables: Sequence[str]) -> str:
    """The text for these values; those named in `tables` are tables, left out where they are empty."""
    lines = _lines({name: value for name, value in values.items() if name not in tables})
    for name in tables:
        if values.get(name):
            lines += ["", f"[{name}]", *_lines(values[name])]
    return "\n".join(lines) + "\n"


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(value)}" for name, value in values.items()]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(value: str) -> str:
    # The strings of JSON are strings of TOML, but for the one control character that JSON leaves alone.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
