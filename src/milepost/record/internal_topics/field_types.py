"""The kinds of values that fields hold (the byte table is in `layout`), and how each looks in JSON.

JSON forms are those of Kafka's dump tool: bytes in base64, a uuid in URL-safe base64 without padding (22 characters), no spaces, non-ASCII
as it is, control characters as \\u with capital hex digits.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from milepost.codec.varint import write_unsigned_varint
from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.internal_topics.layout import (
    I8,
    I16,
    I32,
    I64,
    FieldType,
    Form,
    Reader,
    StructType,
    pack,
    read_length,
    write_length,
)
from milepost.work import pieces

# Takes each escape whole, so that the "u001f" behind an escaped backslash is not mistaken for one.
ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


class Integer(FieldType):
    def __init__(self, number_format: struct.Struct) -> None:
        self.number_format = number_format

    def read(self, reader: Reader, form: Form) -> int:
        return reader.number(self.number_format)

    def write(self, out: bytearray, value: int, form: Form) -> None:
        out += pack(self.number_format, value)

    def write_all(self, out: bytearray, values: Sequence[int]) -> None:
        """A member's partitions of one topic may be ten thousand."""
        letter = self.number_format.format[1:]
        try:
            out += struct.pack(f">{len(values)}{letter}", *values)
        except struct.error as error:
            raise InvalidArgument(
                f"one of {len(values)} numbers does not fit {self.number_format.size} bytes: {error}"
            ) from error


class Uuid(FieldType):
    def read(self, reader: Reader, form: Form) -> uuid.UUID:
        return uuid.UUID(bytes=reader.take(16))

    def write(self, out: bytearray, value: uuid.UUID, form: Form) -> None:
        out += value.bytes

    def render(self, value: uuid.UUID, form: Form) -> str:
        return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


class Nullable(FieldType):
    """A kind with a length, which may be null where `nullable` says so."""

    def __init__(self, *, nullable: bool = False) -> None:
        self.nullable = nullable

    def read_length(self, reader: Reader, form: Form, ordinary: struct.Struct) -> int | None:
        length = read_length(reader, form, ordinary)
        if length is None and not self.nullable:
            kind = type(self).__name__.lower()
            raise InvalidRecord(f"{reader.what}: null before byte {reader.position}, where a {kind} must stand")
        return length

    def write_null(self, out: bytearray, form: Form, ordinary: struct.Struct) -> None:
        if not self.nullable:
            raise InvalidArgument(f"None where a {type(self).__name__.lower()} must stand")
        write_length(out, None, form, ordinary)


class String(Nullable):
    def read(self, reader: Reader, form: Form) -> str | None:
        length = self.read_length(reader, form, I16)
        return None if length is None else reader.take(length).decode("utf-8", "surrogateescape")

    def write(self, out: bytearray, value: str | None, form: Form) -> None:
        if value is None:
            return self.write_null(out, form, I16)
        content = value.encode("utf-8", "surrogateescape")
        write_length(out, len(content), form, I16)
        out += content
        return None

    def render(self, value: str | None, form: Form) -> str | None:
        # Java shows bytes that are not UTF-8 as U+FFFD; an escaped surrogate could not be printed at all.
        return None if value is None else value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Bytes(Nullable):
    def read(self, reader: Reader, form: Form) -> bytes | None:
        length = self.read_length(reader, form, I32)
        return None if length is None else reader.take(length)

    def write(self, out: bytearray, value: bytes | None, form: Form) -> None:
        if value is None:
            return self.write_null(out, form, I32)
        write_length(out, len(value), form, I32)
        out += value
        return None

    def render(self, value: bytes | None, form: Form) -> str | None:
        return None if value is None else base64.b64encode(value).decode("ascii")


class Array(Nullable):
    def __init__(self, element: FieldType, *, nullable: bool = False) -> None:
        super().__init__(nullable=nullable)
        self.element = element

    def read(self, reader: Reader, form: Form) -> tuple[Any, ...] | None:
        count = self.read_length(reader, form, I32)
        if count is None:
            return None
        # Every element takes at least one byte: a huge count must fail here, not after gigabytes of Python objects.
        left = reader.remaining()
        if count > left:
            raise InvalidRecord(
                f"{reader.what}: {count} elements are announced before byte {reader.position}, but {left} bytes are left"
            )
        return tuple(self.element.read(reader, form) for _ in range(count))

    def write(self, out: bytearray, value: tuple[Any, ...] | None, form: Form) -> None:
        if value is None:
            return self.write_null(out, form, I32)
        write_length(out, len(value), form, I32)
        self._write_elements(out, value, form)
        return None

    def writing(self, out: bytearray, value: tuple[Any, ...] | None, form: Form) -> Iterator[None]:
        if value is None:
            return self.write_null(out, form, I32)
        write_length(out, len(value), form, I32)
        for some in pieces(value):
            self._write_elements(out, some, form)
            yield
        return None

    def _write_elements(self, out: bytearray, elements: Sequence[Any], form: Form) -> None:
        if isinstance(self.element, Integer):
            self.element.write_all(out, elements)
            return
        for element in elements:
            self.element.write(out, element, form)

    def render(self, value: tuple[Any, ...] | None, form: Form) -> list[Any] | None:
        return None if value is None else [self.element.render(element, form) for element in value]


class NullableStruct(FieldType):
    """A struct in a tagged field, which only flexible versions have."""

    def __init__(self, body: StructType) -> None:
        self.body = body

    def read(self, reader: Reader, form: Form) -> Any:
        return None if reader.unsigned_varint() == 0 else self.body.read(reader, form)

    def write(self, out: bytearray, value: Any, form: Form) -> None:
        write_unsigned_varint(out, 0 if value is None else 1)
        if value is not None:
            self.body.write(out, value, form)

    def render(self, value: Any, form: Form) -> Any:
        return None if value is None else self.body.render(value, form)


INT8, INT16, INT32, INT64 = Integer(I8), Integer(I16), Integer(I32), Integer(I64)
UUID = Uuid()
STRING, NULLABLE_STRING = String(), String(nullable=True)
BYTES, NULLABLE_BYTES = Bytes(), Bytes(nullable=True)


def dump_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return ESCAPE.sub(lambda match: f"\\u{match[1][1:].upper()}" if len(match[1]) > 1 else match[0], text)
