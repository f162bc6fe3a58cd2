"""A key or value of a type or version that this package does not know: its bytes, kept as they are.

Share and streams groups (key types 9 to 15 and 17 up) are among them, and whatever a newer Kafka adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from milepost.codec.text import counted
from milepost.errors import InvalidRecord
from milepost.record.internal_topics.field_types import dump_json
from milepost.record.internal_topics.layout import Layout

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unknown:
    data: bytes

    @property
    def version(self) -> int:
        """The number in front: a key's type or a value's version."""
        return number_in_front(self.data)

    def describe(self, version_name: str) -> str:
        return dump_json({version_name: str(self.version), "data": {"hex": self.data[2:].hex()}})


def number_in_front(data: bytes) -> int:
    if len(data) < 2:
        raise InvalidRecord(
            f"{counted(len(data), 'byte')} {'is' if len(data) == 1 else 'are'} too few for the key or value of an internal topic: "
            "it starts with 2 bytes of type or version"
        )
    return int.from_bytes(data[:2], "big", signed=True)


def unknown_unless(layout: Layout[T], data: bytes) -> T | Unknown:
    return layout.decode(data) if number_in_front(data) in layout.versions else Unknown(data)
