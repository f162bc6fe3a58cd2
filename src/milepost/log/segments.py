"""The segments of a log, by base offset: a sorted list that is searched by bisection (Kafka uses a skip list)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from milepost.errors import InvalidArgument
from milepost.segment.segment import Segment


class LogSegments:
    def __init__(self) -> None:
        self._bases: list[int] = []
        self._segments: dict[int, Segment] = {}

    def __len__(self) -> int:
        return len(self._bases)

    def __iter__(self) -> Iterator[Segment]:
        return iter([self._segments[base] for base in self._bases])

    def __contains__(self, base_offset: int) -> bool:
        return base_offset in self._segments

    def add(self, segment: Segment) -> None:
        """A segment at a base offset that is there already takes the other one's place."""
        base = segment.base_offset
        if base not in self._segments:
            if self._bases and base > self._bases[-1]:
                self._bases.append(base)
            else:
                self._bases.insert(bisect_left(self._bases, base), base)
        self._segments[base] = segment

    def remove(self, base_offset: int) -> None:
        del self._segments[base_offset]
        del self._bases[bisect_left(self._bases, base_offset)]

    def clear(self) -> None:
        self._bases.clear()
        self._segments.clear()

    def base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def first(self) -> Segment:
        return self._segments[self._bases[0]]

    @property
    def active(self) -> Segment:
        return self._segments[self._bases[-1]]

    def floor(self, offset: int) -> Segment | None:
        """The segment with the greatest base offset not above `offset`."""
        at = bisect_right(self._bases, offset)
        return self._segments[self._bases[at - 1]] if at else None

    def higher(self, offset: int) -> Segment | None:
        """The segment with the least base offset above `offset`."""
        at = bisect_right(self._bases, offset)
        return self._segments[self._bases[at]] if at < len(self._bases) else None

    def lower(self, offset: int) -> Segment | None:
        at = bisect_left(self._bases, offset)
        return self._segments[self._bases[at - 1]] if at else None

    def between(self, start: int, end: int) -> list[Segment]:
        """The segments that may hold offsets from `start` up to, not including, `end`."""
        if start > end:
            raise InvalidArgument(f"segments from offset {start} to {end}: the start lies behind the end")
        if start == end:
            return []
        low = max(0, bisect_right(self._bases, start) - 1)
        return [self._segments[base] for base in self._bases[low : bisect_left(self._bases, end)]]

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that holds `offset`, and all behind it."""
        low = max(0, bisect_right(self._bases, offset) - 1)
        return [self._segments[base] for base in self._bases[low:]]

    def next_base(self, segment: Segment) -> int | None:
        following = self.higher(segment.base_offset)
        return None if following is None else following.base_offset

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self)
