"""What must be true of every recovered log, whatever the crash was.

    I-1  every batch that was answered for, at the level tested, is there: same offset, same bytes
    I-2  nothing is there that nobody sent, and nothing in part
    I-3  offsets rise, and the log ends behind everything that was answered for
    I-4  a second recovery changes no byte
    I-5  lookups by offset and by time find what a walk over all records finds
    I-6  producer state is that of a replay from zero, and each producer's last five batches are recognised when they are sent again
    I-7  aborted transactions and the last stable offset are those of a replay from zero
    I-9  nothing but documented errors

The recovered bytes are read here by a walk of its own (`scan`), not through the log. Many states recover to the same
result: I-4 to I-7 depend on nothing but the files and the state in memory, so they are checked once for each distinct
result; `Checker` remembers which ones it has seen. (I-8, a reader that somebody else wrote, belongs to the tests that
run real Kafka.)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from milepost.clock import ManualClock
from milepost.config.topic import LogConfig
from milepost.errors import CorruptRecord, MilepostError
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.record.batch import RecordBatch
from tests.crash.history import Expected, Facts, facts
from tests.crash.memory_disk import MemoryDisk, State
from tests.crash.replayed_state import Broken, check_epochs, check_producers, check_transactions, comparable
from tests.crash.sample import NOW, PARTITION

Known = frozenset[bytes]
Damage = tuple[int, int]


@functools.lru_cache(maxsize=4096)
def scan(data: bytes, known: Known) -> tuple[tuple[tuple[int, Facts], ...], tuple[Damage, ...]]:
    """Every whole batch of a `.log` file with its position, and the stretches between them that are none.

    A batch that was sent is known by its bytes, another by its CRC.
    """
    found, damaged, position = [], [], 0
    while position < len(data):
        end = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        stored = data[position:end] if end - position >= 61 else b""
        if stored not in known and not _is_valid(stored, end - position):
            start = position
            behind = [at for at in (data.find(batch, start + 1) for batch in known) if at > 0]
            position = min(behind, default=len(data))
            damaged.append((start, position))
            continue
        found.append((position, facts(stored)))
        position = end
    return tuple(found), tuple(damaged)


def _is_valid(stored: bytes, size: int) -> bool:
    return len(stored) == size and stored[16] == 2 and RecordBatch(stored).is_valid()


@dataclass(frozen=True, slots=True)
class Result:
    """What a state recovered to."""

    visible: list[Facts]
    batches: list[Facts]
    holes: int
    start_offset: int
    end_offset: int
    active_base: int


NOTHING = Result([], [], 0, 0, 0, 0)


@dataclass(slots=True)
class Checker:
    """Recovers states of one history, and counts them: each state once, however many crashes lead to it."""

    known: Known
    config: LogConfig
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    cases: int = 0
    results: int = 0
    _recovered: dict[int, Result] = field(default_factory=dict)
    _deep: set[int] = field(default_factory=set)
    _stable: set[int] = field(default_factory=set)

    @property
    def states(self) -> int:
        return len(self._recovered)

    def check(self, state: State, expected: Expected, *, tolerated: Known = frozenset()) -> None:
        """Recover the state and check everything. `tolerated`: batches that damage made of others and that no checksum can tell."""
        self.cases += 1
        key = hash(frozenset(state.items()))
        result = self._recovered.get(key)
        if result is None:
            result = self._recovered[key] = self._check_recovery(state, expected, tolerated)
        check_presence(result, expected, tolerated)
        check_order(result, expected)

    def note(self, state: State) -> None:
        """Count a state that was recovered for another question than all of these."""
        self.cases += 1
        self._recovered.setdefault(hash(frozenset(state.items())), NOTHING)

    def recover(self, state: State) -> tuple[Log, MemoryDisk]:
        disk = MemoryDisk(state, [PARTITION])
        try:
            log = open_log(PARTITION, "a", self.config, clock=self.clock, disk=disk)
        except MilepostError as error:
            raise Broken(f"I-9: recovery refuses the log: {type(error).__name__}: {error}") from error
        except Exception as error:
            raise Broken(f"I-9: recovery failed with {type(error).__name__}: {error}") from error
        disk.die()
        return log, disk

    def _check_recovery(self, state: State, expected: Expected, tolerated: Known) -> Result:
        log, disk = self.recover(state)
        batches, holes = self.batches_of(log, disk, tolerated)
        visible = [batch for batch in batches if batch.last_offset >= log.start_offset]
        result = Result(visible, batches, holes, log.start_offset, log.end_offset, log.segments.active.base_offset)
        after = disk.state()
        is_stable = hash(frozenset(after.items())) in self._stable
        key = self._result_key(log, batches, expected)
        if key not in self._deep:
            self._deep.add(key)
            self.results += 1
            # What does not rise cannot be looked up: the complaint about the order comes first.
            check_order(result, expected)
            check_lookups(log, visible)
            check_reading(log, visible)
            check_producers(log, visible, expected)
            check_transactions(log, visible, expected)
            if not tolerated and expected.knows_epochs:
                check_epochs(log, visible)
        elif not is_stable:
            check_lookups(log, visible, few=8)
        if not is_stable:
            self._check_second_recovery(after)
        return result

    def batches_of(self, log: Log, disk: MemoryDisk, tolerated: Known = frozenset()) -> tuple[list[Facts], int]:
        """The batches of all segments as they are on disk, and how many holes the log has noted between them."""
        found: list[Facts] = []
        holes = 0
        for segment in log.segments:
            batches, damaged = scan(bytes(disk.node(segment.log.path).data), self.known | tolerated if tolerated else self.known)
            noted = [(hole.position, hole.end) for hole in segment.log.holes]
            # A batch that nobody sent, with a good CRC: its offset is damaged, which only its neighbours can tell.
            strange = [place for place in batches if place[1].stored not in self.known and _covers(noted, place[0])]
            if strange:
                batches = tuple(place for place in batches if place not in strange)
                damaged = (*damaged, *((position, position + len(batch.stored)) for position, batch in strange))
            if _joined(damaged) != _joined(noted):
                raise Broken(f"{segment.log.path}: damaged are {_joined(damaged)}, the log knows of {segment.log.holes}")
            found += [batch for _, batch in batches]
            holes += len(damaged)
        return found, holes

    def _result_key(self, log: Log, batches: list[Facts], expected: Expected) -> object:
        """What a reader can tell of a log: its batches, indexes, ends and producers. The bytes inside a hole are not among it."""
        segments = tuple(
            (
                segment.base_offset,
                bytes(segment.offset_index.buffer()),
                bytes(segment.time_index.buffer()),
                segment.max_so_far,
                tuple(segment.txn_index.transactions()),
                tuple((hole.first_offset, hole.next_offset) for hole in segment.log.holes),
            )
            for segment in log.segments
        )
        before = tuple(batch.stored for batch in expected.past) if batches[:1] != expected.past[:1] else ()
        producers = tuple(comparable(log.producers.producers[producer]) for producer in sorted(log.producers.producers))
        stored = tuple(batch.stored for batch in batches)
        return hash(
            (
                stored,
                segments,
                before,
                log.start_offset,
                log.end_offset,
                log.last_stable_offset,
                producers,
                tuple(log.epochs.entries),
            )
        )

    def _check_second_recovery(self, after: dict[str, bytes]) -> None:
        _, disk = self.recover(after)
        again = disk.state()
        if again != after:
            changed = sorted(path for path in {*after, *again} if after.get(path) != again.get(path))
            detail = "; ".join(f"{path} {_brief(after.get(path))} -> {_brief(again.get(path))}" for path in changed)
            raise Broken(f"I-4: a second recovery changed {detail}")
        self._stable.add(hash(frozenset(after.items())))


def _covers(stretches: Sequence[Damage], position: int) -> bool:
    return any(start <= position < end for start, end in stretches)


def _joined(stretches: Sequence[Damage]) -> list[Damage]:
    """Stretches in order, neighbours made one."""
    joined: list[Damage] = []
    for start, end in sorted(stretches):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _brief(data: bytes | None) -> str:
    return "absent" if data is None else f"{len(data)} bytes"


def check_presence(result: Result, expected: Expected, tolerated: Known) -> None:
    """I-1 and I-2."""
    there = {batch.stored for batch in result.visible}
    lost = [batch for batch in expected.must if batch.stored not in there]
    if lost:
        raise Broken(f"I-1: {lost} were answered for and are gone; there are {result.visible}")
    foreign = [batch for batch in result.visible if batch.stored not in expected.may and batch.stored not in tolerated]
    if foreign:
        raise Broken(f"I-2: {foreign} should not be there")
    for old, new in expected.either:
        if there & (old | new) not in (old, new):
            raise Broken(f"I-1: neither the old batches nor the new ones are there as a whole: {result.visible}")


def check_order(result: Result, expected: Expected) -> None:
    """I-3."""
    end = -1
    for batch in result.batches:
        if batch.base_offset <= end:
            raise Broken(f"I-3: {batch} follows offset {end}")
        if expected.is_contiguous and end >= 0 and batch.base_offset not in (end + 1, expected.resumes_at):
            raise Broken(f"I-3: {batch} follows offset {end}, what lay between is gone")
        if any(end < firm < batch.base_offset for firm in expected.firm):
            raise Broken(f"I-3: {batch} follows offset {end}: a truncation took what lay between and left what lies behind")
        end = batch.last_offset
    if result.batches and result.end_offset != max(end + 1, result.active_base) and not result.holes:
        raise Broken(f"I-3: the log ends at {result.end_offset}, its last batch at {end}")
    if result.end_offset <= end:
        raise Broken(f"I-3: the log ends at {result.end_offset}, and a batch reaches {end}")
    if not result.start_offset <= result.end_offset:
        raise Broken(f"I-3: the log starts at {result.start_offset}, behind its end {result.end_offset}")


def check_lookups(log: Log, visible: list[Facts], few: int | None = None) -> None:
    """I-5: every offset, and every timestamp that is there with those around it; or a few of each, spread over the log."""
    records = [record for batch in visible for record in batch.records if record[0] >= log.start_offset]
    at = 0
    for offset in _some(_offsets(log, visible), few):
        while at < len(records) and records[at][0] < offset:
            at += 1
        wanted = records[at] if at < len(records) else None
        try:
            found = log.find(offset=offset)
        except CorruptRecord:
            if not any(hole.first_offset <= offset < hole.next_offset for segment in log.segments for hole in segment.log.holes):
                raise Broken(f"I-5: offset {offset} is said to be damaged, and is not") from None
            continue
        if (found and (found.offset, found.timestamp)) != wanted:
            raise Broken(f"I-5: find(offset={offset}) gives {found}, a walk gives {wanted}")
    times = _some(sorted({time + delta for _, time in records for delta in (-1, 0, 1)}), few)
    for time, wanted in zip(times, _first_at_or_after(records, times), strict=True):
        found = log.find(time=time)
        if found is None and gives_up(log, visible, time):
            continue
        if (found and (found.offset, found.timestamp)) != wanted:
            raise Broken(f"I-5: find(time={time}) gives {found}, a walk gives {wanted}")


def gives_up(log: Log, visible: list[Facts], time: int) -> bool:
    """Kafka's rule: the first segment that is not older than the time has the answer, or nobody has.

    Its newest record may be gone, below the log start or cleaned away, while the segment is still as new as that record was.
    """
    for segment in log.segments.from_offset(log.start_offset):
        if segment.largest_timestamp >= time:
            end = log.segments.next_base(segment) or log.end_offset
            inside = [batch for batch in visible if segment.base_offset <= batch.base_offset < end]
            newest = max((stamp for batch in inside for offset, stamp in batch.records if offset >= log.start_offset), default=-1)
            return newest < time
    return False


def _offsets(log: Log, visible: list[Facts]) -> list[int]:
    """Every offset of the log; where damage made a wide gap, the edges of the gap."""
    offsets: set[int] = set()
    before = log.start_offset
    for last in [*(batch.last_offset for batch in visible), log.end_offset - 1]:
        offsets.update(range(before, last + 1) if last - before < 1000 else (before, before + 1, last - 1, last))
        before = last + 1
    return sorted(offset for offset in offsets if log.start_offset <= offset < log.end_offset)


def _some(values: Sequence[int], few: int | None) -> Sequence[int]:
    return values if few is None else values[:: max(1, len(values) // few)]


def _first_at_or_after(records: list[tuple[int, int]], times: Sequence[int]) -> list[tuple[int, int] | None]:
    """For each of the rising times, the first record that is not older: a record counts only if it is newer than all before it."""
    rising: list[tuple[int, int]] = []
    for record in records:
        if not rising or record[1] > rising[-1][1]:
            rising.append(record)
    answers: list[tuple[int, int] | None] = []
    at = 0
    for time in times:
        while at < len(rising) and rising[at][1] < time:
            at += 1
        answers.append(rising[at] if at < len(rising) else None)
    return answers


def check_reading(log: Log, visible: list[Facts]) -> None:
    """Reading from the start to the end gives every batch, and says so where there is a hole."""
    found: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            batches = log.read(offset, 1 << 20, "log end").batches
        except CorruptRecord:
            holes = [
                hole for segment in log.segments for hole in segment.log.holes if hole.first_offset <= offset < hole.next_offset
            ]
            if not holes:
                raise Broken(f"I-5: reading at {offset} says it is damaged, and it is not") from None
            offset = holes[0].next_offset
            continue
        if not batches:
            break
        found += [bytes(batch.view()) for batch in batches]
        offset = batches[-1].next_offset
    if found != [batch.stored for batch in visible]:
        raise Broken(f"I-5: reading gives {list(map(facts, found))}, on disk are {visible}")
