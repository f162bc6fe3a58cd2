"""What a leader appends: one batch, with the next offsets, once."""

from __future__ import annotations

import os

import pytest

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.errors import (
    CorruptRecord,
    InvalidArgument,
    InvalidRecord,
    KafkaStorage,
    RecordBatchTooLarge,
    RecordTooLarge,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.log.making import NOW, idempotent, log_in, offsets, produced, snapshots
from tests.quick_disk import QuickDisk


def test_batches_get_consecutive_offsets_also_over_a_roll(tmp_path):
    log = log_in(tmp_path)
    assert log.append_as_leader(produced(3)).first_offset == 0
    assert log.append_as_leader(produced(3)).first_offset == 3
    log.roll()
    answer = log.append_as_leader(produced(3))
    assert (answer.first_offset, answer.last_offset) == (6, 8)
    assert log.end_offset == 9


def test_answer_tells_offsets_newest_timestamp_log_start_epoch_and_size(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(2))
    answer = log.append_as_leader(produced(3, timestamp=NOW + 5, size=100), leader_epoch=7)
    assert (answer.first_offset, answer.last_offset) == (2, 4)
    assert (answer.max_timestamp, answer.offset_of_max_timestamp) == (NOW + 5, 4)
    assert (answer.log_append_time, answer.log_start_offset, answer.leader_epoch) == (-1, 0, 7)
    assert (answer.valid_bytes, answer.is_duplicate) == (100, False)


def test_stored_batch_carries_offset_and_epoch_and_is_otherwise_the_producers(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(2))
    sent = produced(3, size=200)
    log.append_as_leader(sent, leader_epoch=7)
    [stored] = log.read(2, isolation="log end").batches
    stored.ensure_valid()
    assert (stored.base_offset, stored.partition_leader_epoch) == (2, 7)
    assert bytes(stored.view())[16:] == sent[16:]


def test_senders_bytes_are_not_touched(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(2))
    sent = bytearray(produced(3))
    before = bytes(sent)
    log.append_as_leader(sent, leader_epoch=7)
    assert bytes(sent) == before


def test_fifty_single_records_over_fifty_segments_are_all_read_back(tmp_path):
    log = log_in(tmp_path, segment_bytes=71)
    for number in range(50):
        log.append_as_leader(produced(timestamp=NOW + number))
    log.update_high_watermark(50)
    for number in range(50):
        [batch] = log.read(number, 1).batches
        assert (batch.base_offset, batch.max_timestamp) == (number, NOW + number)
    assert log.read(50).size == 0
    assert len(log.segments) == 50


def test_leader_epoch_of_each_append_is_noted_where_it_starts(tmp_path):
    log = log_in(tmp_path)
    for epoch in (0, 0, 2, 2, 5):
        log.append_as_leader(produced(3), leader_epoch=epoch)
    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [(0, 0), (2, 6), (5, 12)]


def test_empty_set_appends_nothing(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced())
    answer = log.append_as_leader(b"")
    assert (answer.first_offset, answer.last_offset, log.end_offset) == (-1, -1, 1)


def test_batch_that_is_cut_off_appends_nothing(tmp_path):
    log = log_in(tmp_path)
    assert log.append_as_leader(produced(3)[:-1]).first_offset == -1
    assert log.end_offset == 0


def test_changed_byte_is_refused(tmp_path):
    sent = bytearray(produced(3, size=100))
    sent[70] ^= 1
    log = log_in(tmp_path)
    with pytest.raises(CorruptRecord) as refused:
        log.append_as_leader(sent)
    assert refused.value.code == 2
    assert log.end_offset == 0


def test_clients_batch_that_does_not_start_at_zero_is_refused(tmp_path):
    sent = (5).to_bytes(8, "big") + produced()[8:]
    with pytest.raises(InvalidRecord, match="base offset 5; a client's batch starts at 0"):
        log_in(tmp_path).append_as_leader(sent)


@pytest.mark.parametrize(("size", "fits"), [(200, True), (201, False)])
def test_batch_above_the_largest_message_is_refused(tmp_path, size, fits):
    log = log_in(tmp_path, max_message_bytes=200)
    if fits:
        log.append_as_leader(produced(size=size))
    else:
        with pytest.raises(RecordTooLarge, match=r"201 bytes; max\.message\.bytes is 200") as refused:
            log.append_as_leader(produced(size=size))
        assert refused.value.code == 10
    assert log.end_offset == int(fits)


def test_batch_that_grows_above_the_largest_message_when_it_is_stored_is_refused(tmp_path):
    sent = produced(50, codec=Codec.GZIP)
    log = log_in(tmp_path, max_message_bytes=len(sent), compression_type="uncompressed")
    with pytest.raises(RecordTooLarge, match="as stored"):
        log.append_as_leader(sent)
    assert log.end_offset == 0


def test_batch_above_the_segment_size_is_refused(tmp_path):
    log = log_in(tmp_path, segment_bytes=100)
    with pytest.raises(RecordBatchTooLarge, match=r"the append has 101 bytes; segment\.bytes is 100") as refused:
        log.append_as_leader(produced(size=101))
    assert refused.value.code == 18


def test_records_without_value_and_without_timestamp_are_kept_so(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(build_batch([Record(0, -1, b"k", None)]))
    [record] = log.records(isolation="log end")
    assert (record.timestamp, record.value) == (-1, None)


# Embedded use.


def test_records_are_appended_as_one_batch_with_the_time_of_now_where_they_have_none(tmp_path):
    log = log_in(tmp_path, clock=ManualClock(NOW))
    answer = log.append([Record(9, -1, b"a", b"1"), Record(9, 1526384718283, None, None, (("h", b"x"),))])
    assert (answer.first_offset, answer.last_offset) == (0, 1)
    assert list(log.records()) == [Record(0, NOW, b"a", b"1"), Record(1, 1526384718283, None, None, (("h", b"x"),))]


def test_appended_records_are_readable_at_once(tmp_path):
    log = log_in(tmp_path)
    log.append([Record(0, NOW, b"a", b"1")])
    assert log.high_watermark == 1
    log.append_as_leader(produced())
    assert log.high_watermark == 1


def test_no_records_append_nothing(tmp_path):
    log = log_in(tmp_path)
    assert log.append([]).first_offset == -1
    assert log.end_offset == 0


# When it must not, or cannot.


def test_log_opened_for_reading_refuses(tmp_path):
    log_in(tmp_path).close()
    with pytest.raises(InvalidArgument, match="opened for reading; open it with mode='a' to append"):
        log_in(tmp_path, mode="r").append_as_leader(produced())


def test_closed_log_refuses(tmp_path):
    log = log_in(tmp_path)
    log.close()
    with pytest.raises(KafkaStorage, match="the log is closed"):
        log.append_as_leader(produced())


def test_log_on_a_failed_disk_refuses_appends_and_reads(tmp_path):
    log = log_in(tmp_path)
    log.append([Record(0, NOW, b"k", b"v")])
    log.fail(OSError(5, "Input/output error"))
    with pytest.raises(KafkaStorage, match="offline") as refused:
        log.append_as_leader(produced())
    assert refused.value.code == 56
    with pytest.raises(KafkaStorage, match="offline"):
        log.read(0)


class BrokenDisk(QuickDisk):
    """Fails with `error` while it is set; takes half of each append before it does."""

    error: OSError | None = None

    def pwritev(self, fd, buffers, position, size):
        if self.error is not None:
            os.pwrite(fd, b"".join(buffers)[: size // 2], position)
            raise self.error
        super().pwritev(fd, buffers, position, size)


def test_full_disk_fails_the_append_and_the_next_one_works_when_there_is_room(tmp_path):
    disk = BrokenDisk()
    log = log_in(tmp_path, disk=disk)
    log.append_as_leader(idempotent(0, 3))
    disk.error = OSError(28, "No space left on device")
    with pytest.raises(KafkaStorage, match="nothing was appended at offset 3: No space left on device"):
        log.append_as_leader(idempotent(3, 3))
    assert log.end_offset == 3
    disk.error = None
    assert log.append_as_leader(idempotent(3, 3)).first_offset == 3
    log.close()
    assert offsets(log_in(tmp_path)) == [0, 1, 2, 3, 4, 5]


def test_other_errors_of_the_disk_take_the_log_offline(tmp_path):
    disk = BrokenDisk()
    log = log_in(tmp_path, disk=disk)
    disk.error = OSError(5, "Input/output error")
    with pytest.raises(KafkaStorage):
        log.append_as_leader(produced())
    disk.error = None
    with pytest.raises(KafkaStorage, match="offline"):
        log.append_as_leader(produced())
    log.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_bytes_are_in_the_kernel_when_the_append_returns(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(3, size=150))
    assert (tmp_path / "topic-0" / "00000000000000000000.log").stat().st_size == 150


def test_closing_takes_a_snapshot_at_the_end(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(idempotent(0, 3))
    log.close()
    assert snapshots(log) == [3]
