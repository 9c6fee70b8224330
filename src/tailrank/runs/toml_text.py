"""Plain values as the text of a TOML file; Python only reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_of(values: Mapping[str, Any], table: str = "") -> str:
    """The text for these values; a mapping is a table, after the other values of its own table."""
    inside = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    lines = _lines({name: value for name, value in values.items() if name not in inside})
    text = "\n".join([*([f"[{table}]"] if table else []), *lines]) + "\n" if table or lines else ""
    for name, value in inside.items():
        text += ("\n" if text else "") + toml_of(value, f"{table}.{_key(name)}" if table else _key(name))
    return text


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
