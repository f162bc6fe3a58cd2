"""Many values in little memory: how many, their sum, the largest, and percentiles that are right to about three percent.

Values are counted in slots that are narrow where values are small: each doubling is cut into sixteen. The slot of a value
is what stands in the first 16 bits of it as a 64-bit float:

    bits   1     11        4
           sign  exponent  first bits of the fraction

A slot exists only when something fell into it: what lies between a nanosecond and a week, in seconds, has 800 of them.

A value comes with a weight, the number of values it stands for. Adding costs next to nothing: values wait in a list, and a
thousand at a time are counted. Percentiles and the largest speak of what came last, of one to two windows of a minute; when
nothing comes any more they stay, as Kafka's do. `count` and `total` speak of everything.

Any thread may `add`; `add_all` and reading are for one.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from operator import mul

WINDOW_SECONDS = 60.0
MOST_WAITING = 1024
NOTHING = 0  # the slot of the value 0
FIRST_BITS = 3 if sys.byteorder == "little" else 0

_slot_bytes = struct.Struct(">HHI").pack
_float = struct.Struct(">d").unpack


class Window:
    """What came in within one minute."""

    __slots__ = ("ends", "largest", "slots")

    def __init__(self, ends: float):
        self.ends = ends
        self.largest = 0.0
        self.slots: dict[int, int] = {}


class Histogram:
    __slots__ = ("_before", "_count", "_lock", "_monotonic", "_now", "_total", "_waiting", "scale")

    def __init__(self, scale: float = 1.0, monotonic: Callable[[], float] = time.monotonic):
        """`scale`: what a value is multiplied with when it is read, such as 1000 for seconds shown as milliseconds."""
        self.scale = scale
        self._count = 0
        self._total = 0.0
        self._waiting: list[float] = []
        self._now = self._before = Window(0.0)
        self._monotonic = monotonic
        self._lock = threading.Lock()

    def add(self, value: float) -> None:
        waiting = self._waiting
        waiting.append(value)
        if len(waiting) >= MOST_WAITING:
            self.settle()

    def settle(self) -> None:
        """Count what was added."""
        with self._lock:
            # Others may add meanwhile: what they add stays behind.
            size = len(self._waiting)
            values = self._waiting[:size]
            del self._waiting[:size]
            self.add_all(values, [1] * size)

    def add_all(self, values: Sequence[float], weights: Sequence[int]) -> None:
        """Count many values at once, none of them negative."""
        if not values:
            return
        self._count += sum(weights)
        window = self._window()
        slots, largest = window.slots, max(values)
        if not largest:
            # Times that nothing took, by the thousand: of a queue that is never waited in.
            slots[NOTHING] = slots.get(NOTHING, 0) + sum(weights)
            return
        self._total += sum(map(mul, values, weights))
        window.largest = max(window.largest, largest)
        quarters = array("H")
        quarters.frombytes(array("d", values).tobytes())
        for slot, weight in zip(quarters[FIRST_BITS::4], weights, strict=True):
            slots[slot] = slots.get(slot, 0) + weight

    def _window(self) -> Window:
        now, window = self._monotonic(), self._now
        if now >= window.ends:
            # After a longer silence the last window says nothing about the present.
            self._before = window if now < window.ends + WINDOW_SECONDS else Window(now)
            window = self._now = Window(now + WINDOW_SECONDS)
        return window

    # Reading.

    @property
    def count(self) -> int:
        self.settle()
        return self._count

    @property
    def total(self) -> float:
        self.settle()
        return self._total * self.scale

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """The value below which each share of the latest values lies; 0 when there never was one. A share of 1 gives the largest."""
        self.settle()
        slots = dict(self._before.slots)
        if self._now is not self._before:
            for slot, times in self._now.slots.items():
                slots[slot] = slots.get(slot, 0) + times
        ordered, count = sorted(slots.items()), sum(slots.values())
        largest = max(self._before.largest, self._now.largest)
        return [(largest if share >= 1 else min(reached(ordered, share * count), largest)) * self.scale for share in shares]


def reached(ordered: Sequence[tuple[int, int]], rank: float) -> float:
    """The value of the slot in which the rank lies."""
    passed = 0
    for slot, times in ordered:
        passed += times
        if passed >= rank:
            return middle_of(slot)
    return 0.0


def middle_of(slot: int) -> float:
    value: float = _float(_slot_bytes(slot, 0x8000, 0))[0]
    return value if slot != NOTHING else 0.0
