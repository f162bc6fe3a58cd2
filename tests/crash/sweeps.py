"""States of a damaged directory, made from the one that `sample.everything` left: each with what must still be there.

What must be there is told by comparing bytes: a batch whose bytes are where they were is *intact*, and an intact batch must be found, whatever happened around it
(design decision 11: damage with whole batches behind it is a hole, damage with nothing behind it is a torn tail).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.crash.history import Expected, Facts
from tests.crash.invariants import Known, scan
from tests.crash.memory_disk import State
from tests.crash.sample import DATA, PARTITION

RECOVERY_POINTS = f"{DATA}/recovery-point-offset-checkpoint"


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    position: int
    batch: Facts


@dataclass(frozen=True, slots=True)
class Case:
    label: str
    state: State
    expected: Expected
    tolerated: Known = frozenset()


class Original:
    """A directory before it is damaged."""

    def __init__(self, state: State, known: Known):
        self.state = dict(state)
        self.places: list[Place] = []
        for path in sorted(path for path in state if path.endswith(".log")):
            self.places += [Place(path, position, batch) for position, batch in scan(state[path], known)[0]]
        self.all = [place.batch for place in self.places]
        self.whole = Expected(self.all, frozenset(batch.stored for batch in self.all), self.all)

    def logs(self) -> list[str]:
        return sorted({place.path for place in self.places})

    def files(self) -> list[str]:
        return sorted(self.state)

    def segment_base(self, path: str) -> int:
        """Where the segment starts that a file belongs to; 0 for a file of none."""
        digits = path.removeprefix(f"{PARTITION}/").split(".")[0]
        return int(digits) if digits.isdigit() else 0

    def with_file(self, path: str, data: bytes | None, label: str, recovery_point: int | None = None) -> Case:
        """The directory with one file changed, or without it. The recovery point, if given, is what the checkpoint says."""
        state = dict(self.state)
        if data is None:
            del state[path]
        else:
            state[path] = data
        if recovery_point is not None:
            state[RECOVERY_POINTS] = b"0\n1\nt 0 %d\n" % recovery_point
        return self.case(state, f"{path.rpartition('/')[2]} {label}, recovery point {recovery_point}")

    def case(self, state: State, label: str) -> Case:
        intact, changed = [], []
        for place in self.places:
            size = len(place.batch.stored)
            now = state.get(place.path, b"")
            if now is self.state[place.path] or now[place.position : place.position + size] == place.batch.stored:
                intact.append(place.batch)
            else:
                changed.append(now[place.position : place.position + size])
        if len(intact) == len(self.all):
            return Case(label, state, self.whole)
        # No checksum covers offset and leader epoch: a batch that differs in nothing else is as valid as the original.
        uncovered = frozenset(
            now for now in changed if any(now[8:12] == batch.stored[8:12] and now[16:] == batch.stored[16:] for batch in self.all)
        )
        return Case(label, state, Expected(intact, frozenset(batch.stored for batch in intact), intact), uncovered)

    # The sweeps.

    def cuts(self, path: str, step: int = 1, recovery_point: int | None = None) -> Iterator[Case]:
        data = self.state[path]
        for size in range(0, len(data), step):
            yield self.with_file(path, data[:size], f"cut to {size}", recovery_point)

    def flips(self, path: str, bits: range | None = None, recovery_point: int | None = None) -> Iterator[Case]:
        """One bit of each byte, a different one from byte to byte; or all of `bits`."""
        data = self.state[path]
        for position in range(len(data)):
            for bit in bits or (position % 8,):
                damaged = bytearray(data)
                damaged[position] ^= 1 << bit
                yield self.with_file(path, bytes(damaged), f"bit {bit} of byte {position} flipped", recovery_point)

    def zeroed_tails(self, path: str, step: int = 1, recovery_point: int | None = None) -> Iterator[Case]:
        data = self.state[path]
        for size in range(1, len(data) + 1, step):
            yield self.with_file(path, data[: len(data) - size] + bytes(size), f"last {size} bytes zero", recovery_point)

    def zeroed_blocks(self, path: str, block: int, step: int | None = None, recovery_point: int | None = None) -> Iterator[Case]:
        data = self.state[path]
        for start in range(0, len(data), step or block):
            end = min(start + block, len(data))
            yield self.with_file(path, data[:start] + bytes(end - start) + data[end:], f"bytes {start} to {end} zero", recovery_point)

    def zeros_behind(self, path: str, sizes: list[int], recovery_point: int | None = None) -> Iterator[Case]:
        for size in sizes:
            yield self.with_file(path, self.state[path] + bytes(size), f"{size} zeros behind", recovery_point)
