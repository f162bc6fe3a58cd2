"""A piece of a response frame: bytes in memory, or records that go from their file to the socket directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.segment.file_records import FileSlice

    Outgoing: TypeAlias = ReadableBuffer | FileSlice
