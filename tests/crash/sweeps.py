"""States of a damaged directory, made from the one that `sample.everything` left: each with what must still be there.

What must be there is told by comparing bytes: a batch whose bytes are where they were is *intact*, and an intact
batch must be found, whatever happened around it (design decision 11: damage with whole batches behind it is a hole,
damage with nothing behind it is a torn tail).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tests.crash.history import Expected, Facts
from tests.crash.invariants import Known, scan
from tests.crash.memory_disk import State
from tests.crash.sample import DATA, PARTITION

RECOVERY_POINTS = f"{DATA}/recovery-point-offset-checkpoint"
LOG_STARTS = f"{DATA}/log-start-offset-checkpoint"
MARKER = f"{DATA}/.kafka_cleanshutdown"
EPOCHS = f"{PARTITION}/leader-epoch-checkpoint"
STALE_EPOCHS = b"0\n1\n0 0\n"

# A label, and what becomes of which file; None: it is gone.
Change = tuple[str, dict[str, "bytes | None"]]


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
        if any(path not in state for path in self.logs()):
            # What is known of producers may come from snapshots that outlived the log they speak of.
            return Case(label, state, Expected(intact, frozenset(batch.stored for batch in intact), self.all))
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
            yield self.with_file(
                path, data[:start] + bytes(end - start) + data[end:], f"bytes {start} to {end} zero", recovery_point
            )

    def zeros_behind(self, path: str, sizes: list[int], recovery_point: int | None = None) -> Iterator[Case]:
        for size in sizes:
            yield self.with_file(path, self.state[path] + bytes(size), f"{size} zeros behind", recovery_point)

    def removals(self, recovery_point: int | None = None) -> Iterator[Case]:
        for path in self.files():
            yield self.with_file(path, None, "removed", recovery_point)

    def older(self, versions: Mapping[str, list[bytes]], recovery_point: int | None = None) -> Iterator[Case]:
        """Each file as it was at some earlier time, among the others as they are now."""
        for path in self.files():
            for number, data in enumerate(versions[path]):
                yield self.with_file(path, data, f"as it was at version {number}", recovery_point)

    def combinations(self) -> Iterator[Case]:
        """Every state of the newest log with every state of the indexes, the snapshots, the checkpoints and the epoch file."""
        for chosen in itertools.product(
            self.newest_logs(), self.index_states(), self.snapshot_states(), self.checkpoint_states(), self.epoch_states()
        ):
            state = dict(self.state)
            for _, changes in chosen:
                for path, data in changes.items():
                    if data is None:
                        state.pop(path, None)
                    else:
                        state[path] = data
            case = self.case(state, ", ".join(label for label, _ in chosen))
            start = self.log_start(state)
            if start:
                must = [batch for batch in case.expected.must if batch.last_offset >= start]
                case = Case(case.label, state, Expected(must, case.expected.may, case.expected.past))
            yield (
                case if state.get(EPOCHS) != STALE_EPOCHS else replace(case, expected=replace(case.expected, knows_epochs=False))
            )

    def log_start(self, state: State) -> int:
        """What the checkpoint says; nothing when it lies beyond the log, which must cost no record."""
        said = int(state[LOG_STARTS].split()[-1]) if LOG_STARTS in state else 0
        return said if said <= self.all[-1].last_offset else 0

    def newest_logs(self) -> list[Change]:
        path = self.logs()[-1]
        data = self.state[path]
        last = [place.position for place in self.places if place.path == path]
        hole = bytearray(data)
        hole[last[3] + 30] ^= 0x10
        return [
            ("log whole", {}),
            ("log torn", {path: data[:-7]}),
            ("log torn in a header", {path: data[: last[-1] + 11]}),
            ("log cut between batches", {path: data[: last[-2]]}),
            ("log with a zero tail", {path: data + bytes(700)}),
            ("log with its last page zero", {path: data[:-300] + bytes(300)}),
            ("log with a hole", {path: bytes(hole)}),
            ("log empty", {path: b""}),
        ]

    def index_states(self) -> list[Change]:
        """Of the last two segments, or the last for the transaction index: nobody rebuilds that one below the recovery point."""
        indexes = [path for path in self.files() if path.endswith((".index", ".timeindex")) and self.segment_base(path)]
        transactions = self.logs()[-1].replace(".log", ".txnindex")
        return [
            ("indexes whole", {}),
            ("no indexes", dict.fromkeys((*indexes, transactions))),
            ("indexes empty", dict.fromkeys((*indexes, transactions), b"")),
            ("indexes zero", {path: bytes(480) for path in indexes}),
            ("indexes cut", {path: self.state[path][:29] for path in (*indexes, transactions)}),
            ("indexes garbled", {path: bytes(range(7, 247)) for path in indexes}),
            ("indexes with a zero tail", {path: self.state[path].rstrip(b"\0") + bytes(1024) for path in indexes}),
        ]

    def snapshot_states(self) -> list[Change]:
        """A snapshot may also lie beyond the log: a crash lost what it spoke of."""
        snapshots = [path for path in self.files() if path.endswith(".snapshot")]
        newest = snapshots[-1]
        damaged = self.state[newest][:-1] + b"\x55"
        return [
            ("snapshots whole", {}),
            ("no snapshots", dict.fromkeys(snapshots)),
            ("newest snapshot torn", {newest: self.state[newest][:-9]}),
            ("snapshots damaged", dict.fromkeys(snapshots, damaged)),
            ("snapshot empty", {newest: b""}),
            ("snapshot beyond the log", {f"{PARTITION}/{5000:020d}.snapshot": self.state[newest]}),
        ]

    def checkpoint_states(self) -> list[Change]:
        middle, end = self.segment_base(self.logs()[1]), self.all[-1].last_offset + 1
        point = b"0\n1\nt 0 %d\n"
        return [
            ("no checkpoint", {}),
            ("recovery point in the middle", {RECOVERY_POINTS: point % middle}),
            ("recovery point at the end", {RECOVERY_POINTS: point % end}),
            ("recovery point beyond the end", {RECOVERY_POINTS: point % (end + 100)}),
            ("recovery points torn", {RECOVERY_POINTS: b"0\n1\nt 0 3"}),
            ("recovery points zero", {RECOVERY_POINTS: bytes(40)}),
            ("log start in a batch", {LOG_STARTS: point % (middle + 1)}),
            ("log start beyond the end", {LOG_STARTS: point % (end + 100)}),
            ("marker of another log", {MARKER: b'{"version":0,"brokerEpoch":-1,"milepost":{"t-0":[7,13]}}'}),
            ("marker torn", {MARKER: b'{"version":0,"brok'}),
        ]

    def epoch_states(self) -> list[Change]:
        return [
            ("epochs whole", {}),
            ("epochs lost", {EPOCHS: None}),
            ("epochs zero", {EPOCHS: bytes(30)}),
            ("epochs older", {EPOCHS: STALE_EPOCHS}),
        ]
