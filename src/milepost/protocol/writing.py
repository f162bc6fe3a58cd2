"""What generated encoders call: lengths as varints, tagged fields, and refusals.

`Unwritable` is internal: the encoder turns it into `InvalidArgument` or `UnsupportedVersion` with the message and the field.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from milepost.protocol.reading import MAX_STRING, tag

MAX_SENTENCE = 1000


class Unwritable(ValueError):
    pass


class Lost(Unwritable):
    """A value that the version has no field for."""


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Varints(dict[int, bytes]):
    """Unsigned varints by value. Those of one byte are kept: they are nearly all there are."""

    def __missing__(self, value: int) -> bytes:
        return unsigned_varint(value)


class StringLengths(Varints):
    """The same for lengths of strings, which have a limit; it costs nothing here, off the path of short strings."""

    def __missing__(self, value: int) -> bytes:
        if value > MAX_STRING + 1:
            raise Unwritable(f"is a string of {value - 1} bytes, {MAX_STRING} are allowed")
        return unsigned_varint(value)


ONE_BYTE = [(value, bytes([value])) for value in range(128)]
VARINTS = Varints(ONE_BYTE)
STRING_LENGTHS = StringLengths(ONE_BYTE)


def tagged_fields(known: Iterable[tuple[int, bytes]], unknown: bytes) -> bytes:
    """The whole section: count, then the fields by rising tag. Those nobody knows go out byte for byte as they came in."""
    fields = [(number, VARINTS[number] + VARINTS[len(content)] + content) for number, content in known]
    start, last = 0, -1
    while start < len(unknown):
        last, _, end = tag(unknown, start, last, len(unknown))
        fields.append((last, unknown[start:end]))
        start = end
    fields.sort()
    return VARINTS[len(fields)] + b"".join(field for _, field in fields)


def sentence(text: str) -> bytes:
    """A sentence for people, of MAX_SENTENCE bytes at most."""
    data = text.encode()
    if len(data) <= MAX_SENTENCE:
        return data
    return data[: MAX_SENTENCE - 3].decode(errors="ignore").encode() + b"..."


def lost(name: str, value: object) -> NoReturn:
    raise Lost(f"cannot carry {name}, which is {value!r:.60}")
