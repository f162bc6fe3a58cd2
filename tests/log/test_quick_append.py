"""Appending ordinary batches quickly, compiled and as plain Python: the same log as the plain way leaves, or nothing at all."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.config import LogConfig
from milepost.errors import MilepostError
from milepost.log.log import Log
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.conftest import twin
from tests.log.making import NOW, idempotent, log_in, offsets, placed, produced, transactional
from tests.quick_disk import QuickDisk

NOT_ORDINARY = -1


@pytest.fixture(scope="module", params=["compiled", "pure"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    return twin("milepost.log.quick_append", request.param)


def quickly(module: ModuleType, log: Log, data: bytes, leader_epoch: int = 0) -> int:
    buffer = bytearray(data)
    info = module.append_fast(log, memoryview(buffer), leader_epoch)
    assert buffer == data, "the caller's batch is as it was"
    return NOT_ORDINARY if info is None else info.first_offset


def begun(directory: Path, *batches: bytes, **config) -> Log:
    """A log that has its first batch: the one that opens files and starts an epoch is nobody's ordinary one."""
    log = log_in(directory, **config)
    for batch in batches or (produced(1),):
        log.append_as_leader(batch)
    return log


def contents(log: Log) -> dict[str, bytes]:
    log.close()
    return {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}


def test_ordinary_batch_goes_to_the_end_of_the_log(module, tmp_path):
    with begun(tmp_path, produced(3)) as log:
        assert quickly(module, log, produced(2)) == 3
        assert (log.end_offset, log.producers.map_end_offset) == (5, 5)
        assert offsets(log) == [0, 1, 2, 3, 4]
        assert log.segments.active.log.read(len(produced(3)), 1000) == placed(produced(2), 3)


@pytest.mark.parametrize("codec", list(Codec), ids=str)
def test_batch_in_any_codec_is_kept_as_it_is(module, tmp_path, codec):
    sent = build_batch([Record(number, NOW + number, b"k", b"v" * 100) for number in range(3)], codec=codec)
    with begun(tmp_path, produced(1)) as log:
        assert quickly(module, log, sent) == 1
        assert log.segments.active.log.read(len(produced(1)), 5000) == placed(sent, 1)
        assert log.segments.active.max_so_far.timestamp == NOW + 2


def test_batch_of_a_producer_that_counts_on_is_known_as_its_last_one(module, tmp_path):
    with begun(tmp_path, idempotent(0, 2)) as log:
        assert quickly(module, log, idempotent(2, 3, timestamp=NOW + 5)) == 2
        entry = log.producers.last_entry(1)
        assert entry is not None
        assert (entry.last_sequence, entry.last_data_offset, entry.last_timestamp) == (4, 4, NOW + 5)
        assert log.append_as_leader(idempotent(2, 3, timestamp=NOW + 5)).is_duplicate


def test_index_entries_appear_as_in_the_plain_way(module, tmp_path):
    with begun(tmp_path, index_interval_bytes=100) as log:
        for number in range(6):
            assert quickly(module, log, produced(1, timestamp=NOW + number, size=80)) == 1 + number
        index = log.segments.active.offset_index
        assert [index.entry(slot).offset for slot in range(index.entries)] == [2, 4, 6]
        assert log.segments.active.max_so_far.timestamp == NOW + 5


NOT_ORDINARY_BATCHES = {
    "compressed, and damaged": build_batch([Record(0, NOW, b"k", b"v" * 100)], codec=Codec.LZ4)[:-1] + b"\1",
    "compressed, with offsets that have a gap": build_batch(
        [Record(0, NOW, b"k", b"v"), Record(2, NOW, b"k", b"v")], codec=Codec.LZ4
    ),
    "of a codec that does not exist": produced(1)[:22] + b"\5" + produced(1)[23:],
    "with a flag that does not exist": produced(1)[:21] + b"\1" + produced(1)[22:],
    "transactional": transactional(0),
    "of a producer that nobody knows": idempotent(0, producer_id=7),
    "sent once more": idempotent(0),
    "with a batch missing before it": idempotent(5),
    "of another epoch": idempotent(0, epoch=1),
    "of records without end": produced(1)[:61] + b"\x80" * (len(produced(1)) - 61),
    "with a wrong CRC": produced(1)[:-1] + b"\xff",
    "cut short": produced(1)[:-1],
    "with bytes behind it": produced(1) + b"\0",
    "of a header alone": produced(1)[:61],
    "too short for a header": produced(1)[:40],
    "two of them": produced(1) * 2,
    "with an offset": placed(produced(1), 1),
    "of an old format": produced(1)[:16] + b"\1" + produced(1)[17:],
    "with a last offset that does not fit": produced(1)[:26] + b"\7" + produced(1)[27:],
}


@pytest.mark.parametrize("situation", NOT_ORDINARY_BATCHES)
def test_batch_is_left_to_the_plain_way(module, tmp_path, situation):
    with begun(tmp_path, idempotent(0)) as log:
        size = log.segments.active.size
        assert quickly(module, log, NOT_ORDINARY_BATCHES[situation]) == NOT_ORDINARY
        assert (log.end_offset, log.segments.active.size) == (1, size)


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup_policy": ("compact",)},
        {"message_timestamp_type": "LogAppendTime"},
        {"compression_type": "zstd"},
        {"index_profile": "per-append"},
        {"max_message_bytes": 68},
        {"message_timestamp_before_max_ms": 10},
        {"flush_messages": 2},
    ],
    ids=str,
)
def test_topic_with_other_settings_is_left_to_the_plain_way(module, tmp_path, config):
    with begun(tmp_path) as log:
        log.update_config(LogConfig(**config))
        assert quickly(module, log, produced(1, timestamp=NOW - 11)) == NOT_ORDINARY
        assert log.end_offset == 1


def test_batch_within_the_bounds_of_its_topic_is_ordinary(module, tmp_path):
    with begun(tmp_path, message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10) as log:
        assert quickly(module, log, produced(1, timestamp=NOW - 10)) == 1
        assert quickly(module, log, produced(1, timestamp=NOW + 10)) == 2
        assert quickly(module, log, produced(1, timestamp=NOW + 11)) == NOT_ORDINARY


def test_log_that_is_new_closed_or_in_another_epoch_is_left_to_the_plain_way(module, tmp_path):
    new = log_in(tmp_path / "new")
    assert quickly(module, new, produced(1)) == NOT_ORDINARY
    new.append_as_leader(produced(1))
    assert quickly(module, new, produced(1), leader_epoch=1) == NOT_ORDINARY
    new.close()
    assert quickly(module, new, produced(1)) == NOT_ORDINARY


def test_full_segment_is_left_to_the_plain_way(module, tmp_path):
    with begun(tmp_path, produced(1, size=400), segment_bytes=1000) as log:
        assert quickly(module, log, produced(1, size=600)) == 1
        assert quickly(module, log, produced(1, size=62 + 7)) == NOT_ORDINARY
        assert log.append_as_leader(produced(1)).first_offset == 2
        assert len(log.segments) == 2


class FullDisk(QuickDisk):
    """Takes half of what it is given, once it is full."""

    is_full = False

    def pwritev(self, fd, buffers, position, size):
        if self.is_full:
            self.pwrite(fd, b"".join(buffers)[: size // 2], position)
            raise OSError(errno.ENOSPC, "no space left")
        super().pwritev(fd, buffers, position, size)


def test_write_that_fails_leaves_the_log_as_it_was(module, tmp_path):
    disk = FullDisk()
    with begun(tmp_path, idempotent(0), disk=disk) as log:
        before = log.segments.active.log.read(0, 1000)
        disk.is_full = True
        assert quickly(module, log, idempotent(1)) == NOT_ORDINARY
        disk.is_full = False
        assert (log.end_offset, log.segments.active.log.read(0, 1000)) == (1, before)
        assert quickly(module, log, idempotent(1)) == 1


def random_batch(rng: random.Random, sequences: dict[int, int]) -> bytes:
    count = rng.randrange(1, 5)
    fields: dict[str, object] = {"timestamp": NOW + rng.randrange(-50, 50), "size": rng.choice([None, 300, 2000])}
    if rng.random() < 0.2:
        fields |= {"codec": rng.choice(list(Codec)), "size": None}
    if rng.random() < 0.6:
        producer_id = rng.randrange(3)
        sequence = sequences.get(producer_id, 0)
        if rng.random() < 0.2:
            sequence = max(0, sequence - rng.randrange(4))
        sequences[producer_id] = sequence + count
        data = idempotent(sequence, count, producer_id=producer_id, **fields)
    else:
        data = produced(count, **fields)
    if rng.random() < 0.1:
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        return bytes(damaged)
    return data


def plain_and_quick(directory: Path) -> Iterator[Log]:
    for name in ("plain", "quick"):
        yield log_in(directory / name, clock=ManualClock(NOW), segment_bytes=20_000, index_interval_bytes=500)


def ensure_same(plain: Log, quick: Log) -> None:
    assert repr(plain.producers.producers) == repr(quick.producers.producers)
    assert contents(plain) == contents(quick)


@pytest.mark.parametrize("seed", range(8))
def test_random_batches_leave_the_same_log_either_way(module, tmp_path, seed):
    rng, sequences = random.Random(seed), dict[int, int]()
    plain, quick = plain_and_quick(tmp_path)
    taken = 0
    for _ in range(150):
        batch = random_batch(rng, sequences)
        expected = answer_of(plain, batch)
        offset = quickly(module, quick, batch)
        taken += offset >= 0
        assert expected == (offset if offset >= 0 else answer_of(quick, batch))
        assert plain.end_offset == quick.end_offset
    assert taken > 50, "most are ordinary"
    ensure_same(plain, quick)


def given_quickly(module: ModuleType, log: Log, data: bytes) -> bool:
    buffer = bytearray(data)
    is_done = module.append_fast_as_follower(log, memoryview(buffer))
    assert buffer == data
    return is_done


@pytest.mark.parametrize("seed", range(8))
def test_random_batches_of_a_leader_leave_the_same_log_either_way(module, tmp_path, seed):
    """Of a leader whose log has gaps, and some of whose answers are damaged on their way, or come twice."""
    rng, sequences = random.Random(seed), dict[int, int]()
    plain, quick = plain_and_quick(tmp_path)
    taken, epoch = 0, 0
    for _ in range(150):
        offset = plain.end_offset + rng.choice([0, 0, 0, 0, 0, 0, 0, 3, -1])
        epoch += rng.random() < 0.05
        batch = placed(random_batch(rng, sequences), max(0, offset), epoch) * rng.choice([1, 1, 1, 1, 2])
        expected = given(plain, batch)
        is_done = given_quickly(module, quick, batch)
        taken += is_done
        assert expected == (True if is_done else given(quick, batch))
        assert plain.end_offset == quick.end_offset
    assert taken > 30
    ensure_same(plain, quick)


@pytest.mark.parametrize("data", [produced(1)[:61], memoryview(placed(produced(1), 1))], ids=["short", "read-only"])
def test_what_cannot_be_a_batch_of_a_receive_buffer_is_left_to_the_plain_way(module, tmp_path, data):
    with begun(tmp_path) as log:
        assert not module.append_fast_as_follower(log, data)
        assert log.end_offset == 1


def given(log: Log, batch: bytes) -> bool | type[MilepostError]:
    try:
        return log.append_as_follower(batch).last_offset == log.end_offset - 1
    except MilepostError as error:
        return type(error)


def answer_of(log: Log, batch: bytes) -> int | type[MilepostError]:
    try:
        return log.append_as_leader(batch).first_offset
    except MilepostError as error:
        return type(error)
