"""Bytes that somebody else wrote, as text that is safe to show.

Control characters are shown as \\xNN: a record, a topic's name or a client's id must not be able to move the cursor of a terminal or
to look like another line. What is not UTF-8 is shown with replacement characters, in JSON as {"hex": "…"}.
"""

from __future__ import annotations

import re
from typing import Any

# C0, DEL and C1; a line separator would start a new line in some terminals.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def shown(text: str) -> str:
    """Text that is safe on a terminal, whatever it came from."""
    return _escaped(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def text_of(content: bytes) -> str:
    return _escaped(content.decode("utf-8", "replace"))


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 partition`, `2 partitions`, `3 indexes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _escaped(text: str) -> str:
    return text if text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def json_of(content: bytes | None) -> Any:
    """A string when the bytes are UTF-8, {"hex"} when they are not, null for null."""
    if content is None:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": content.hex()}
