"""Messages of magic 0 and 1 are written byte for byte as Kafka 2.4.1 did."""

from __future__ import annotations

import pytest

from milepost.codec.compression import Codec
from milepost.errors import InvalidArgument
from milepost.record.batch import TimestampType
from milepost.record.builder import build_legacy, rewrite_legacy
from milepost.record.legacy import LegacyBatch
from milepost.record.records import Record
from tests.record.legacy_messages import V0, V1, V1_GZIP_22_23, V1_GZIP_APPEND_TIME_37_38, message, offsets, wrapper


def test_the_worked_messages_are_written_byte_for_byte():
    assert build_legacy([Record(5, -1, b"k", b"v")], magic=0) == V0
    assert build_legacy([Record(5, 1700000000000, b"k", b"v")], magic=1) == V1


def test_a_plain_set_is_one_message_per_record():
    records = [Record(5, 1700000000000, b"k", b"v"), Record(7, 1700000000000, b"k", b"v")]
    assert build_legacy(records, magic=1) == V1 + V1[:7] + b"\x07" + V1[8:]


def test_magic_0_has_no_place_for_timestamps_and_their_type():
    record = Record(5, 1700000000000, b"k", b"v")
    assert build_legacy([record], magic=0) == V0
    assert build_legacy([record], magic=0, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=9) == V0


def test_a_plain_message_under_log_append_time_has_the_flag_and_that_time():
    expected = bytes.fromhex(
        "0000000000000000 0000002a dbc611bf 01 08 000001a1de8b03f8 00000002 6b30 00000012 617070656e642074696d65206e6f6e652030"
    )
    record = Record(0, 1700000000000, b"k0", b"append time none 0")
    assert (
        build_legacy([record], magic=1, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=1794735014904) == expected
    )


def test_a_wrapper_of_magic_1_has_the_last_offset_the_largest_timestamp_and_relative_offsets():
    records = [Record(22, 8, b"a", b"1"), Record(23, 6, b"b", None), Record(30, 7, None, b"3")]
    batch = LegacyBatch(build_legacy(records, magic=1, codec=Codec.SNAPPY))
    batch.ensure_valid()
    assert (batch.last_offset, batch.max_timestamp, batch.codec) == (30, 8, Codec.SNAPPY)
    assert batch.records() == records
    # Under a wrapper offset of 0 the inner offsets show as they are stored.
    assert offsets(LegacyBatch(bytes(8) + bytes(batch.view())[8:])) == [0, 1, 8]


def test_a_wrapper_of_magic_0_keeps_absolute_offsets():
    records = [Record(22, -1, b"a", b"1"), Record(25, -1, b"b", None)]
    written = build_legacy(records, magic=0, codec=Codec.GZIP)
    assert LegacyBatch(written).records() == records
    assert LegacyBatch(bytes(8) + written[8:]).records() == records


def test_lz4_for_magic_0_is_written_with_the_wrong_header_checksum_and_for_magic_1_with_the_right_one():
    record = Record(0, -1, b"k0", b"user-001,/cart/8434,10.228.6.22,200,49256")
    assert build_legacy([record], magic=0, codec=Codec.LZ4)[26:33].hex(" ") == "04 22 4d 18 60 40 1a"
    assert build_legacy([record], magic=1, codec=Codec.LZ4)[34:41].hex(" ") == "04 22 4d 18 60 40 82"


@pytest.mark.parametrize(
    ("records", "options", "sentence"),
    [
        ([Record(0, 0, b"", b"")], {"magic": 2}, "magic 2"),
        ([Record(0, 0, b"", b"")], {"magic": 0, "codec": Codec.ZSTD}, "zstd"),
        ([Record(0, 0, b"", b"")], {"magic": 1, "codec": Codec.ZSTD}, "zstd"),
        ([], {"magic": 1}, "needs a record"),
        ([Record(4, 0, b"", b""), Record(4, 0, b"", b"")], {"magic": 1}, "offset 4 is not above the previous record's, 4"),
        ([Record(4, -2, b"", b"")], {"magic": 1}, "timestamp -2 at offset 4 is negative"),
        ([Record(4, 0, b"", b"", (("h", b""),))], {"magic": 1}, "offset 4 has headers"),
        ([Record(4, 0, b"", b"", (("h", b""),))], {"magic": 0}, "offset 4 has headers"),
        (
            [Record(4, 0, b"", b"")],
            {"magic": 1, "timestamp_type": TimestampType.LOG_APPEND_TIME},
            "LOG_APPEND_TIME needs the time",
        ),
    ],
)
def test_what_the_old_formats_cannot_hold_is_refused(records, options, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        build_legacy(records, **options)


def test_compaction_of_a_wrapper_keeps_offsets_codec_and_timestamps():
    original = LegacyBatch(V1_GZIP_22_23)
    rewritten = LegacyBatch(rewrite_legacy(original, original.records()[1:]))
    rewritten.ensure_valid()
    assert rewritten.codec is Codec.GZIP
    assert (rewritten.last_offset, rewritten.max_timestamp) == (23, 1700000000703)
    assert rewritten.records() == [Record(23, 1700000000703, b"key-013", None)]


def test_compaction_of_a_wrapper_under_log_append_time_keeps_that_time():
    original = LegacyBatch(V1_GZIP_APPEND_TIME_37_38)
    rewritten = LegacyBatch(rewrite_legacy(original, original.records()[:1]))
    assert rewritten.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (rewritten.last_offset, rewritten.max_timestamp) == (37, 1794735015002)


def test_compaction_repairs_a_wrapper_of_mixed_magics():
    old = wrapper(message(0, 0, b"a", key=b"k") + message(0, 1, b"b", key=b"k"), offset=9)
    repaired = LegacyBatch(rewrite_legacy(old, old.records()))
    assert not repaired.holds_older_messages()
    assert repaired.records() == [Record(8, -1, b"k", b"a"), Record(9, -1, b"k", b"b")]


def test_compaction_must_keep_something():
    with pytest.raises(InvalidArgument, match="no message is kept"):
        rewrite_legacy(LegacyBatch(V0), [])
