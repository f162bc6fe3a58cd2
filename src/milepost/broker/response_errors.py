"""The error codes in an answer, wherever they stand: at its top, for each topic, for each partition.

Which fields of a message lead to one is found out once for each class, from its schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable

from milepost.frozen_dataclass import frozen_dataclass
from milepost.protocol.message import Message
from milepost.protocol.schema import Struct


@frozen_dataclass
class ErrorFields:
    """Of one struct: its own code, and the fields with structs that have some."""

    has_code: bool
    inner: tuple[tuple[str, ErrorFields], ...]

    def count(self, messages: Iterable[Message], counts: Counter[int]) -> None:
        for message in messages:
            if self.has_code:
                counts[message.error_code] += 1
            for name, fields in self.inner:
                value = getattr(message, name)
                if value is not None:
                    fields.count(value if isinstance(value, list) else (value,), counts)

    def counting(self, messages: Iterable[Message], counts: Counter[int]) -> Generator[None, None, None]:
        """`count` for an answer that may be large: a pause after each message."""
        for message in messages:
            if self.has_code:
                counts[message.error_code] += 1
            for name, fields in self.inner:
                value = getattr(message, name)
                if value is not None:
                    yield from fields.counting(value if isinstance(value, list) else (value,), counts)
            yield


KNOWN: dict[type[Message], ErrorFields] = {}


def error_fields(struct: Struct) -> ErrorFields:
    inner = [(field.name, error_fields(field.struct)) for field in struct.fields if field.struct is not None]
    has_code = any(field.name == "error_code" for field in struct.fields)
    return ErrorFields(has_code, tuple((name, fields) for name, fields in inner if fields.has_code or fields.inner))


def count_errors(response: Message, counts: Counter[int]) -> None:
    """Add the codes of an answer, 0 among them; an answer that has no room for a code counts as one 0."""
    fields = fields_of(type(response))
    if fields.has_code or fields.inner:
        fields.count((response,), counts)
    else:
        counts[0] += 1


def counting_errors(response: Message, counts: Counter[int]) -> Generator[None, None, None]:
    """The same in pieces."""
    fields = fields_of(type(response))
    if fields.has_code or fields.inner:
        yield from fields.counting((response,), counts)
    else:
        counts[0] += 1


def fields_of(cls: type[Message]) -> ErrorFields:
    fields = KNOWN.get(cls)
    if fields is None:
        fields = KNOWN[cls] = error_fields(cls._schema)
    return fields
