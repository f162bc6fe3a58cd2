"""The text of a `.properties` file: Java's format, as in Kafka's `server.properties`.

    # comment, also with !              blank lines and leading spaces do not count
    log.segment.bytes=4096              the name ends at the first =, : or space
    log.dirs = /data/a,\\               a backslash at the end joins the next line, without its leading spaces
               /data/b
    path=C:\\\\logs                       \\t \\n \\r \\f \\uXXXX mean what they do in Java; any other \\x is x

A name given twice has its last value. Lines end with LF, CR LF or CR and with nothing else, unlike
`str.splitlines`, which also cuts at form feeds and Unicode separators that Java keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

LINE_END = re.compile(r"\r\n|\n|\r")
SPACES = " \t\f"
# Everything up to the first separator that no backslash stands before.
NAME = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@frozen_dataclass
class Entry:
    name: str
    value: str
    line: int


def parse_properties(text: str, file: str = "properties") -> dict[str, Entry]:
    """Name → entry. `file` is what an error calls the text."""
    entries = {}
    for line, logical in logical_lines(text):
        name = NAME.match(logical).group()  # type: ignore[union-attr]
        rest = logical[SEPARATOR.match(logical, len(name)).end() :]  # type: ignore[union-attr]
        entry = Entry(unescape(name, file, line), unescape(rest, file, line), line)
        entries[entry.name] = entry
    return entries


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined over their trailing backslashes, with the number of their first line; comments and blanks left out."""
    first, joined = 0, ""
    for number, line in enumerate(LINE_END.split(text.removeprefix("\ufeff")), 1):
        line = line.lstrip(SPACES)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if continues else line
        if not continues:
            yield first, joined
            first, joined = 0, ""
    if first:
        yield first, joined


def unescape(text: str, file: str, line: int) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match.group(1)
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code == "u":
            raise InvalidConfiguration(f"{file}, line {line}: \\u needs four hexadecimal digits, as in \\u00e9; found {text!r}.")
        return CONTROL.get(code, code)

    plain = ESCAPE.sub(replace, text)
    # Java writes characters outside the basic plane as two \uXXXX; Python wants them as one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if "\\u" in text else plain
