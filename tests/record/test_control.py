"""Control records: the 78-byte markers, and keys and values that cannot be read."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.batch import RecordBatch, TimestampType
from milepost.record.control import (
    ControlType,
    EndTransactionMarker,
    control_key,
    control_type,
    end_transaction_batch,
    parse_end_transaction,
)
from milepost.record.records import Record

COMMIT = bytes.fromhex(
    "00 00 00 00 00 00 00 66 00 00 00 42 00 00 00 07"
    "02 2d 78 af a4 00 30 00 00 00 00 00 00 01 8b cf"
    "e5 6b e8 00 00 01 8b cf e5 6b e8 00 00 00 00 00"
    "00 0f a0 00 02 ff ff ff ff 00 00 00 01 20 00 00"
    "00 08 00 00 00 01 0c 00 00 00 00 00 03 00"
)


def marker_batch(kind: ControlType) -> bytes:
    return end_transaction_batch(
        EndTransactionMarker(kind, coordinator_epoch=3),
        offset=102,
        timestamp=1700000001000,
        producer_id=4000,
        producer_epoch=2,
        partition_leader_epoch=7,
    )


def record(key: str | None, value: str | None) -> Record:
    return Record(102, 0, None if key is None else bytes.fromhex(key), None if value is None else bytes.fromhex(value))


def test_a_commit_marker_is_these_78_bytes():
    assert marker_batch(ControlType.COMMIT) == COMMIT


def test_an_abort_marker_differs_in_its_key_and_so_in_its_crc():
    abort = marker_batch(ControlType.ABORT)
    assert [position for position in range(78) if abort[position] != COMMIT[position]] == [17, 18, 19, 20, 69]
    assert abort[66:70] == bytes.fromhex("00 00 00 00")
    RecordBatch(abort).ensure_valid()


def test_a_commit_marker_is_read_back():
    batch = RecordBatch(COMMIT)
    assert batch.is_valid()
    assert batch.is_control
    assert batch.is_transactional
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (4000, 2, -1, -1)
    (found,) = batch.records()
    assert (found.offset, found.timestamp, found.sequence) == (102, 1700000001000, -1)
    assert control_type(found.key) is ControlType.COMMIT
    assert parse_end_transaction(found) == EndTransactionMarker(ControlType.COMMIT, 3)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("0000 0000", ControlType.ABORT),
        ("0000 0001", ControlType.COMMIT),
        ("0000 0002", ControlType.LEADER_CHANGE),
        ("0000 0003", ControlType.SNAPSHOT_HEADER),
        ("0000 0004", ControlType.SNAPSHOT_FOOTER),
        ("0000 0005", ControlType.KRAFT_VERSION),
        ("0000 0006", ControlType.KRAFT_VOTERS),
        ("0000 0007", ControlType.UNKNOWN),
        ("0000 7fff", ControlType.UNKNOWN),
        ("0000 ffff", ControlType.UNKNOWN),
        ("0000 fffe", ControlType.UNKNOWN),
        ("0009 0001", ControlType.COMMIT),
        ("0000 0001 ffff", ControlType.COMMIT),
    ],
)
def test_the_key_tells_the_type_and_a_later_version_is_read_as_version_0(key, kind):
    assert control_type(bytes.fromhex(key)) is kind


@pytest.mark.parametrize("key", [None, "", "0000 00", "ffff 0001", "8000 0001"])
def test_a_key_that_is_null_short_or_of_negative_version_is_refused(key):
    with pytest.raises(InvalidRecord, match="control record key"):
        control_type(None if key is None else bytes.fromhex(key))


def test_every_known_type_has_a_key_and_the_unknown_one_has_none():
    assert control_key(ControlType.LEADER_CHANGE) == bytes.fromhex("0000 0002")
    with pytest.raises(InvalidArgument, match="unknown type"):
        control_key(ControlType.UNKNOWN)


def test_a_later_version_of_the_value_may_be_longer():
    assert parse_end_transaction(record("0000 0000", "0001 00000005 ffff")) == EndTransactionMarker(ControlType.ABORT, 5)


@pytest.mark.parametrize("value", [None, "", "0000 000000", "ffff 00000003"])
def test_a_value_that_is_null_short_or_of_negative_version_is_refused(value):
    with pytest.raises(InvalidRecord, match="COMMIT marker at offset 102"):
        parse_end_transaction(record("0000 0001", value))


def test_a_leader_change_ends_no_transaction():
    with pytest.raises(InvalidRecord, match="offset 102 is LEADER_CHANGE, expected ABORT or COMMIT"):
        parse_end_transaction(record("0000 0002", "0000 00000003"))
    with pytest.raises(InvalidArgument, match="ABORT or COMMIT"):
        EndTransactionMarker(ControlType.LEADER_CHANGE, 3)


def test_a_marker_needs_its_producer():
    with pytest.raises(InvalidArgument, match="producer id"):
        end_transaction_batch(
            EndTransactionMarker(ControlType.COMMIT, 0), offset=0, timestamp=0, producer_id=-1, producer_epoch=0
        )
