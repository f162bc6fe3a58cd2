"""The `.snapshot` file: its bytes, and that damage is noticed."""

from __future__ import annotations

import pytest

from milepost.codec.crc32c import crc32c
from milepost.errors import CorruptSnapshot, InvalidArgument
from milepost.log.producer_state.producer_entry import BatchMetadata, ProducerEntry
from milepost.log.producer_state.snapshot import (
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    is_snapshot_name,
    snapshot_name,
    snapshot_offset,
)
from tests.golden_fixture import all_partitions

EMPTY = bytes.fromhex("00 01 48 67 4b c7 00 00 00 00")
TWO_PRODUCERS = bytes.fromhex("""
    00 01 e1 f7 ac fd 00 00 00 02 00 00 00 00 00 00
    0f a0 00 02 00 00 00 0b 00 00 00 00 00 00 00 65
    00 00 00 01 00 00 01 8b cf e5 68 05 00 00 00 03
    ff ff ff ff ff ff ff ff 00 00 00 00 00 00 0f a1
    00 00 00 00 00 00 00 00 00 00 00 00 00 66 00 00
    00 00 00 00 01 8b cf e5 68 64 ff ff ff ff 00 00
    00 00 00 00 00 66
""")
FIRST = SnapshotEntry(
    producer_id=4000,
    epoch=2,
    last_sequence=11,
    last_data_offset=101,
    last_offset_delta=1,
    last_timestamp=1700000000005,
    coordinator_epoch=3,
    current_txn_first_offset=None,
)
SECOND = SnapshotEntry(
    producer_id=4001,
    epoch=0,
    last_sequence=0,
    last_data_offset=102,
    last_offset_delta=0,
    last_timestamp=1700000000100,
    coordinator_epoch=-1,
    current_txn_first_offset=102,
)


def test_two_producers_are_written_as_in_the_specification():
    assert encode_snapshot([FIRST, SECOND]) == TWO_PRODUCERS


def test_two_producers_are_read_as_in_the_specification():
    assert decode_snapshot(TWO_PRODUCERS, "x.snapshot") == [FIRST, SECOND]


def test_empty_state():
    assert encode_snapshot([]) == EMPTY
    assert decode_snapshot(EMPTY, "x.snapshot") == []


def test_entries_are_written_by_ascending_producer_id():
    assert encode_snapshot([SECOND, FIRST]) == TWO_PRODUCERS


def test_live_producers_are_written_with_their_newest_batch_only():
    batches = [BatchMetadata(9, 99, 1, 1), BatchMetadata(11, 101, 1, 2)]
    first = ProducerEntry(4000, 2, 3, 1700000000005, None, batches)
    second = ProducerEntry(4001, 0, -1, 1700000000100, 102, [BatchMetadata(0, 102, 0, 1700000000100)])
    assert encode_snapshot([second, first]) == TWO_PRODUCERS


def test_producer_without_batches_has_no_sequence_and_no_offset():
    (entry,) = decode_snapshot(encode_snapshot([ProducerEntry(7, 3, 1, 55)]), "x.snapshot")
    assert entry == SnapshotEntry(7, 3, -1, -1, 0, 55, 1, None)


@pytest.mark.parametrize("size", range(len(TWO_PRODUCERS)))
def test_snapshot_cut_at_any_byte_is_corrupt(size):
    with pytest.raises(CorruptSnapshot, match=r"^x\.snapshot: "):
        decode_snapshot(TWO_PRODUCERS[:size], "x.snapshot")


@pytest.mark.parametrize("position", range(len(TWO_PRODUCERS)))
def test_snapshot_with_any_bit_flipped_is_corrupt(position):
    for bit in range(8):
        damaged = bytearray(TWO_PRODUCERS)
        damaged[position] ^= 1 << bit
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged), "x.snapshot")


@pytest.mark.parametrize("tail", [b"\0", bytes(46), TWO_PRODUCERS])
def test_bytes_behind_the_last_entry_are_corrupt(tail):
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(TWO_PRODUCERS + tail, "x.snapshot")


def test_wrong_crc_is_named_with_both_values():
    with pytest.raises(CorruptSnapshot, match="0x48674bc7, the file says 0x48674bc6"):
        decode_snapshot(EMPTY[:5] + b"\xc6" + EMPTY[6:], "x.snapshot")


@pytest.mark.parametrize("version", [0, 2, -1])
def test_unknown_version_is_corrupt(version):
    with pytest.raises(CorruptSnapshot, match=f"version {version}, only version 1"):
        decode_snapshot(version.to_bytes(2, "big", signed=True) + EMPTY[2:], "x.snapshot")


@pytest.mark.parametrize("count", [1, 2**31 - 1, -1, -(2**31)])
def test_declared_count_is_not_believed(count):
    body = count.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptSnapshot, match=f"10 bytes, where {count} producers"):
        decode_snapshot(b"\0\1" + crc32c(body).to_bytes(4, "big") + body, "x.snapshot")


def test_name_has_at_least_twenty_digits():
    assert snapshot_name(42) == "00000000000000000042.snapshot"
    assert snapshot_offset("00000000000000000042.snapshot") == 42
    assert snapshot_offset(snapshot_name(2**63 - 1)) == 9223372036854775807


@pytest.mark.parametrize(
    "name",
    [
        "42.snapshot",
        "00000000000000000042.snapshot.deleted",
        "00000000000000000042.snapshot.tmp",
        "00000000000000000042.log",
        "0000000000000000004x.snapshot",
        "-0000000000000000042.snapshot",
        ".snapshot",
    ],
)
def test_other_names_are_no_snapshots(name):
    assert not is_snapshot_name(name)
    with pytest.raises(InvalidArgument, match="20 digits"):
        snapshot_offset(name)


def as_expected(entry: SnapshotEntry) -> dict[str, object]:
    """In the words of the dump tool, which leaves the batch out when there is none."""
    shown: dict[str, object] = {
        "producerId": entry.producer_id,
        "producerEpoch": entry.epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": entry.current_txn_first_offset,
    }
    if entry.last_data_offset >= 0:
        shown |= {
            "firstSequence": (entry.last_sequence - entry.last_offset_delta) % 2**31,
            "lastSequence": entry.last_sequence,
            "lastOffset": entry.last_data_offset,
            "offsetDelta": entry.last_offset_delta,
            "timestamp": entry.last_timestamp,
        }
    return shown


@pytest.mark.parametrize(("case", "partition"), list(all_partitions()))
def test_snapshots_of_real_brokers_read_as_kafka_reads_them_and_write_back_the_same(golden, case, partition):
    expected = golden.expected(case, partition).get("snapshots") or {}
    found = {path.name: path.read_bytes() for path in golden.partition(case, partition).iterdir() if is_snapshot_name(path.name)}
    assert found.keys() == expected.keys()
    for name, content in found.items():
        entries = decode_snapshot(content, name)
        wanted = {entry["producerId"]: entry for entry in expected[name]}
        for entry in entries:
            # 2.4.1's tool does not print the time of the last write, which is the batch's when there is one.
            kafka = wanted.pop(entry.producer_id)
            assert kafka.pop("lastTimestamp", entry.last_timestamp) == entry.last_timestamp
            assert as_expected(entry) == kafka
        assert not wanted
        # Kafka's order is that of its hash map; sorted by producer id the bytes are the same.
        again = encode_snapshot(entries)
        slots = [content[start : start + 46] for start in range(10, len(content), 46)]
        assert again[10:] == b"".join(sorted(slots))
        assert len(entries) > 1 or again == content
