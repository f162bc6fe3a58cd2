"""A log against a list: whatever is done to it, in whatever order, and wherever it dies in between, it holds what the list holds.

The model is the list of batches as they were answered for. Appending adds to it, truncating and deleting take from
it, a crash of the process changes nothing, a power failure may take what was not flushed. After each step the log is
read from its start to its end and asked for offsets and times.
"""

from __future__ import annotations

import logging

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.config.topic import LogConfig
from milepost.errors import CorruptRecord
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaner import Cleaner
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.control import ControlType
from tests.crash.history import Expected, Facts, as_stored, facts
from tests.crash.invariants import check_lookups, check_reading, scan
from tests.crash.recorder import RecordingDisk
from tests.crash.replayed_state import check_producers, check_transactions
from tests.crash.replayer import DROP, KEEP, SIZE_ONLY, Durable
from tests.crash.sample import DATA, NOW, PARTITION, SETTINGS, batch, marker

CODECS = st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP])


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = RecordingDisk(directories=[DATA])
        self.durable = Durable()
        self.fed = 0
        self.clock = ManualClock(NOW)
        self.batches: list[Facts] = []
        self.past: list[Facts] = []
        self.ever: list[Facts] = []
        self.flushed = 0
        self.number = 0
        self.is_rewritten = False
        self.epoch_of: dict[int, int] = {}
        self.leader_epoch = 0

    @initialize(
        segment_bytes=st.integers(150, 900),
        index_interval=st.integers(0, 300),
        index_bytes=st.integers(24, 200),
        profile=st.sampled_from(["per-batch", "per-append"]),
        preallocate=st.booleans(),
    )
    def create(self, segment_bytes: int, index_interval: int, index_bytes: int, profile: str, preallocate: bool) -> None:
        logging.disable(logging.CRITICAL)
        self.config = LogConfig.parse(
            {
                **SETTINGS,
                "segment.bytes": segment_bytes,
                "index.interval.bytes": index_interval,
                "segment.index.bytes": index_bytes,
                "index.profile": profile,
                "preallocate": preallocate,
                "cleanup.policy": "compact,delete",
                "min.cleanable.dirty.ratio": 0,
            }
        )
        self.open()

    def open(self) -> None:
        self.log: Log = open_log(PARTITION, "a", self.config, clock=self.clock, disk=self.disk)

    def teardown(self) -> None:
        self.disk.die()
        logging.disable(logging.NOTSET)

    # Growing.

    def stored(self, sent: bytes) -> bytes:
        return as_stored(sent, self.log.end_offset, self.leader_epoch)

    def put(self, sent: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        stored = self.stored(sent)
        info = self.log.append_as_leader(sent, leader_epoch=self.leader_epoch, origin=origin)
        assert not info.is_duplicate
        self.appended([stored])
        assert (info.first_offset, info.last_offset) == (self.batches[-1].base_offset, self.batches[-1].last_offset)

    def appended(self, stored: list[bytes]) -> None:
        self.batches += map(facts, stored)
        self.past += map(facts, stored)
        self.ever += map(facts, stored)
        self.number += len(stored)
        self.log.update_high_watermark(self.log.end_offset)

    @rule(records=st.integers(1, 3), codec=CODECS, key=st.integers(0, 4))
    def append(self, records: int, codec: Codec, key: int) -> None:
        self.put(batch(self.number, records=records, codec=codec, key=b"k%d" % key))

    def next_of(self, producer: int) -> dict[str, int]:
        """How a client goes on: in sequence, or, where the log does not know its batches any more, in a new epoch."""
        known = self.log.producers.producers.get(producer)
        if known is not None and known.batches:
            return {"epoch": known.epoch, "sequence": known.last_sequence + 1}
        self.epoch_of[producer] = max(self.epoch_of.get(producer, -1), known.epoch if known else -1) + 1
        return {"epoch": self.epoch_of[producer], "sequence": 0}

    @rule(producer=st.integers(1, 3), records=st.integers(1, 2), again=st.booleans())
    def append_idempotent(self, producer: int, records: int, again: bool) -> None:
        sent = batch(self.number, records=records, producer=producer, **self.next_of(producer))
        self.put(sent)
        if again:
            info = self.log.append_as_leader(sent, leader_epoch=self.leader_epoch)
            assert (info.is_duplicate, info.first_offset) == (True, self.batches[-1].base_offset)

    @rule(producer=st.integers(7, 8))
    def append_in_a_transaction(self, producer: int) -> None:
        self.put(batch(self.number, producer=producer, transactional=True, **self.next_of(producer)))

    @rule(producer=st.integers(7, 8), kind=st.sampled_from([ControlType.COMMIT, ControlType.ABORT]))
    def end_a_transaction(self, producer: int, kind: ControlType) -> None:
        known = self.log.producers.producers.get(producer)
        if known is not None and known.current_txn_first_offset is not None:
            self.put(marker(self.number, kind, producer, known.epoch), AppendOrigin.COORDINATOR)

    @rule(sizes=st.lists(st.integers(1, 2), min_size=1, max_size=3), gap=st.integers(0, 3))
    def follow(self, sizes: list[int], gap: int) -> None:
        """Batches of another leader; offsets may be missing between them, as after its cleaning."""
        offset, stored = self.log.end_offset + gap, []
        for records in sizes:
            stored.append(as_stored(batch(self.number + len(stored), records=records), offset, self.leader_epoch))
            offset += records
        if sum(map(len, stored)) <= self.config.segment_bytes:
            self.log.append_as_follower(b"".join(stored))
            self.appended(stored)

    @rule()
    def elect(self) -> None:
        self.leader_epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.end_offset

    # Shrinking.

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from([one.base_offset for one in self.batches[-6:]]))
        if target < self.log.start_offset:
            return
        self.log.truncate_to(target)
        self.batches = [one for one in self.batches if one.last_offset < target]
        self.past = [one for one in self.past if one.last_offset < target]
        self.ever = [one for one in self.ever if one.last_offset < target]
        self.flushed = min(self.flushed, target)
        self.log.update_high_watermark(self.log.end_offset)

    @rule(gap=st.integers(0, 5))
    def truncate_fully(self, gap: int) -> None:
        self.log.truncate_fully_and_start_at(self.log.end_offset + gap)
        self.batches, self.past, self.ever, self.flushed = [], [], [], self.log.end_offset
        self.log.update_high_watermark(self.log.end_offset)

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        self.log.delete_records(target)
        self.log.owner.publish_start(self.log, target)()  # a manager does so every minute
        self.batches = [one for one in self.batches if one.last_offset >= target]

    @rule()
    def retain(self) -> None:
        if len(self.log.segments) > 1:
            survivor = self.log.segments.base_offsets()[1]
            self.log.delete_segments([self.log.segments.first])
            self.batches = [one for one in self.batches if one.last_offset >= survivor]

    @rule()
    def remove_deleted_files(self) -> None:
        self.log.scheduler.run_due()

    @rule()
    def clean(self) -> None:
        """Which records survive is the question of the cleaner's own tests. Here: none comes, and none of those it may not touch goes."""
        before = {record for one in self.batches for record in one.records}
        work = measure(self.log, None)
        try:
            Cleaner(OffsetMap(4096)).clean(work)
        except CorruptRecord:
            assert any(segment.log.holes for segment in self.log.segments)
        self.adopt()
        after = {record for one in self.batches for record in one.records}
        assert after <= before
        assert {record for record in before if record[0] >= work.first_uncleanable_offset} <= after

    def adopt(self) -> None:
        self.is_rewritten = True
        self.batches = [one for one in self.on_disk() if one.last_offset >= self.log.start_offset]
        self.ever += self.on_disk()

    def on_disk(self) -> list[Facts]:
        known = frozenset(one.stored for one in self.ever)
        return [
            found
            for segment in self.log.segments
            for _, found in scan(bytes(self.disk.node(segment.log.path).data)[: segment.size], known)[0]
        ]

    # Stopping and dying.

    @rule()
    def restart(self) -> None:
        start = self.log.start_offset
        self.log.close()
        self.flushed = self.log.end_offset
        self.open()
        self.start_may_be_lower(start)

    @rule()
    def kill(self) -> None:
        start = self.log.start_offset
        self.disk.die()
        self.replace_disk(self.disk.state())
        self.start_may_be_lower(start)

    def start_may_be_lower(self, start: int) -> None:
        """A log cut in a gap between batches ends before the gap when it is opened again; a start in the gap deletes nothing."""
        if self.log.start_offset < start:
            assert self.log.end_offset < start
            self.adopt()
        self.flushed = min(self.flushed, self.log.end_offset)

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        self.feed()
        self.disk.die()
        pending = self.durable.pending
        choices = {
            at: data.draw(st.sampled_from([KEEP, DROP, SIZE_ONLY]))
            if one.kind == "write"
            else data.draw(st.sampled_from([KEEP, DROP]))
            for at, one in pending[-12:]
        }
        state = self.durable.state(choices, data.draw(st.sampled_from([KEEP, DROP])))
        must = [one for one in self.batches if one.last_offset < self.flushed]
        # Deleted records are back when the log ends before the start that was published: a start beyond the end deletes nothing.
        may = {one.stored for one in self.ever}
        self.replace_disk(state)
        found = [one for one in self.on_disk() if one.last_offset >= self.log.start_offset]
        there = {one.stored for one in found}
        assert all(one.stored in there for one in must), (
            f"{[one for one in must if one.stored not in there]} were flushed and are gone"
        )
        assert there <= may
        # A log cut in a gap between batches ends before the gap now: what is written there next was never flushed.
        self.flushed = min(self.flushed, self.log.end_offset)
        lost = {one.base_offset for one in self.batches} - {one.base_offset for one in found}
        self.batches, self.is_rewritten = found, True
        self.past = [one for one in self.past if one.base_offset not in lost]
        self.ever = [one for one in self.ever if one.last_offset < self.log.end_offset]

    def feed(self) -> None:
        for number in range(self.fed, len(self.disk.trace)):
            self.durable.feed(number, self.disk.trace[number])
        self.fed = len(self.disk.trace)

    def replace_disk(self, state: dict[str, bytes]) -> None:
        """The next process finds these files. They count as durable: whatever survived is on the medium now."""
        self.disk = RecordingDisk(state, [PARTITION])
        self.durable = Durable(
            {path: node.inode for path, node in self.disk.nodes.items()},
            {node.inode: bytes(node.data) for node in self.disk.nodes.values()},
        )
        self.fed = 0
        self.open()

    # What must be true all the time.

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if not hasattr(self, "log"):
            return
        visible = [one for one in self.batches if one.last_offset >= self.log.start_offset]
        expected = Expected(visible, frozenset(), self.past, is_rewritten=self.is_rewritten, knows_aborted=not self.is_rewritten)
        assert [one.stored for one in self.on_disk() if one.last_offset >= self.log.start_offset] == [
            one.stored for one in visible
        ]
        check_reading(self.log, visible)
        check_lookups(self.log, visible, few=6)
        check_producers(self.log, visible, expected)
        check_transactions(self.log, visible, expected)


class Always:
    """Draws the same, whatever it may choose from."""

    def __init__(self, choice: object):
        self.choice = choice

    def draw(self, strategy: object) -> object:
        return self.choice


def test_log_that_was_cut_in_a_gap_grows_again_after_a_power_failure():
    machine = LogMachine()
    machine.create(500, 0, 100, "per-batch", preallocate=False)
    machine.append(1, Codec.NONE, 0)
    machine.follow([1], 3)
    machine.flush()
    machine.truncate(Always(4))
    machine.lose_power(Always(DROP))
    assert machine.log.end_offset == 1
    machine.append(2, Codec.NONE, 0)
    machine.lose_power(Always(DROP))
    machine.holds_what_the_model_holds()
    machine.teardown()


TestLogMachine = LogMachine.TestCase
# The same sixty every time; `make trouble` looks for others.
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True)


@pytest.mark.trouble
class TestLogMachineAtLength(LogMachine.TestCase):
    settings = settings(max_examples=1500, stateful_step_count=60)
