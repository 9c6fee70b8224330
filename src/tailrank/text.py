"""Names from files as they may be printed."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with everything that is no letter, sign or plain space written out: `\x1b`, `\n`, `\u202e`.

    On a terminal, control characters could move the cursor, hide a line or forge one.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
