"""The encoding of one record: nulls and empties, headers, damage of every length and count, sizes."""

from __future__ import annotations

import dataclasses

import pytest

from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.records import Record, read_records, size_upper_bound, write_record

RECORD_1 = "14 00 00 00 04 6b31 04 7631 00"
RECORD_2 = "1e 00 0a 02 01 0a 68656c6c6f 02 02 68 02 78"


@pytest.fixture(autouse=True)
def decoder(kernel, monkeypatch):
    """Every test here runs with the compiled decoder and with the plain one."""
    monkeypatch.setattr("milepost.record.records.decode_records", kernel.decode_records)


def read(section: str, count: int = 1, *, base_sequence: int = -1, log_append_time: int | None = None) -> list[Record]:
    data = bytes.fromhex(section)
    return read_records(data, 0, len(data), count, 100, 1700000000000, base_sequence, log_append_time)


def written(offset_delta: int, timestamp_delta: int, key, value, headers=()) -> str:
    out = bytearray()
    write_record(out, offset_delta, timestamp_delta, key, value, headers)
    return out.hex()


def test_the_two_worked_records_are_read_and_written_byte_for_byte():
    assert read(RECORD_1 + RECORD_2, 2) == [
        Record(100, 1700000000000, b"k1", b"v1"),
        Record(101, 1700000000005, None, b"hello", (("h", b"x"),)),
    ]
    assert written(0, 0, b"k1", b"v1") == RECORD_1.replace(" ", "")
    assert written(1, 5, None, b"hello", (("h", b"x"),)) == RECORD_2.replace(" ", "")


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("0c 00 00 00 01 01 00", None, None),
        ("0c 00 00 00 00 00 00", b"", b""),
        ("0c 00 00 00 01 00 00", None, b""),
        ("0c 00 00 00 00 01 00", b"", None),
        ("0e 00 00 00 02 6b 01 00", b"k", None),
    ],
)
def test_null_and_empty_are_two_things(section, key, value):
    assert read(section) == [Record(100, 1700000000000, key, value)]
    assert written(0, 0, key, value) == section.replace(" ", "")


def test_a_null_may_be_any_negative_length():
    assert read("0c 00 00 00 03 05 00") == [Record(100, 1700000000000, None, None)]


def test_a_timestamp_before_the_base_has_a_negative_delta():
    assert read("16 00 ff ef b2 52 00 04 6b 31 01 00")[0].timestamp == 1700000000000 - 86400000
    assert written(0, -86400000, b"k1", None) == "1600ffefb25200046b310100"


def test_headers_keep_order_repeats_empties_and_nulls():
    headers = (("a", b"1"), ("a", None), ("", b""), ("a", b"1"))
    section = "26 00 00 00 01 01 08 0261 0231 0261 01 00 00 0261 0231"
    assert read(section)[0].headers == headers
    assert written(0, 0, None, None, headers) == section.replace(" ", "")


def test_a_header_key_outside_ascii_is_utf_8():
    section = "16 00 00 00 01 01 02 06e4b8ad 00"
    assert read(section)[0].headers == (("中", b""),)
    assert written(0, 0, None, None, (("中", b""),)) == section.replace(" ", "")


def test_a_header_key_that_is_not_utf_8_is_written_back_as_it_was():
    section = "14 00 00 00 01 01 02 04ff6b 01"
    headers = read(section)[0].headers
    assert headers == (("\udcffk", None),)
    assert written(0, 0, None, None, headers) == section.replace(" ", "")


def test_a_header_key_without_any_byte_form_is_a_callers_mistake():
    with pytest.raises(InvalidArgument, match="has no UTF-8 form"):
        written(0, 0, None, None, (("\ud800", b""),))


def test_sequences_follow_offset_deltas_across_gaps_and_wrap():
    section = "0c 00 00 00 01 01 00" + "0c 00 00 06 01 01 00"
    assert [record.sequence for record in read(section, 2, base_sequence=10)] == [10, 13]
    assert [record.sequence for record in read(section, 2, base_sequence=2147483647)] == [2147483647, 2]
    assert [record.sequence for record in read(section, 2)] == [-1, -1]


def test_log_append_time_overrides_every_delta():
    assert [record.timestamp for record in read(RECORD_1 + RECORD_2, 2, log_append_time=7)] == [7, 7]


@pytest.mark.parametrize(
    "section",
    [
        pytest.param("", id="no record"),
        pytest.param("80", id="length without its last byte"),
        pytest.param("0c", id="length and nothing else"),
        pytest.param("01", id="length -1"),
        pytest.param("00", id="length 0"),
        pytest.param("0e 00 00 00 01 01 00", id="length past the end"),
        pytest.param("0c 00 00 00 01 01 00 00", id="a byte behind the record"),
        pytest.param("0e 00 00 00 01 01 00 00", id="a byte inside the record behind its headers"),
        pytest.param("0a 00 00 00 01 01", id="header count missing"),
        pytest.param("02 00", id="ends behind the attributes"),
        pytest.param("0c 00 00 00 04 6b 00", id="key past the end of the record"),
        pytest.param("0c 00 00 00 01 04 00", id="value past the end of the record"),
        pytest.param("14 00 00 00 feffffff0f 01 00", id="key of 2 GiB"),
        pytest.param("0c 00 00 00 01 01 01", id="negative header count"),
        pytest.param("0c 00 00 00 01 01 02", id="header count above the bytes left"),
        pytest.param("10 00 00 00 01 01 04 01 01", id="negative header key length"),
        pytest.param("10 00 00 00 01 01 02 04 6b", id="header key past the end"),
        pytest.param("0e 00 00 00 01 01 02 00", id="header value length missing"),
        pytest.param("10 00 00 00 01 01 02 00 04", id="header value past the end"),
        pytest.param("20 00 80808080808080808080 00 00 01 01 00", id="timestamp delta of more than 10 bytes"),
        pytest.param("1e 00 ffffffffffffffffff02 00 01 01 00", id="timestamp delta of more than 64 bits"),
        pytest.param("16 00 00 8080808080 00 01 01 00", id="offset delta of more than 5 bytes"),
        pytest.param("14 00 00 ffffffff1f 01 01 00", id="offset delta of more than 32 bits"),
        pytest.param("ffffffffff 00", id="length of more than 5 bytes"),
    ],
)
def test_a_damaged_record_is_refused(section):
    with pytest.raises(InvalidRecord, match=r"\d"):
        read(section)


def test_a_record_may_not_reach_into_the_bytes_behind_its_section():
    data = bytes.fromhex(RECORD_1)
    with pytest.raises(InvalidRecord):
        read_records(data, 0, len(data) - 1, 1, 0, 0, -1, None)


def test_a_record_is_a_value():
    record = Record(1, 2, b"k", b"v")
    assert record == Record(1, 2, b"k", b"v", (), -1)
    assert hash(record) == hash(Record(1, 2, b"k", b"v"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.offset = 5


@pytest.mark.parametrize(
    ("key", "value", "headers", "size"),
    [
        (None, None, (), 21 + 1 + 1 + 1),
        (b"", b"", (), 21 + 1 + 1 + 1),
        (b"k" * 63, b"v" * 64, (), 21 + 64 + 66 + 1),
        (None, b"v", (("h", b"x"), ("i", None)), 21 + 1 + 2 + 1 + 4 + 3),
    ],
)
def test_the_size_bound_allows_for_the_longest_length_timestamp_and_offset(key, value, headers, size):
    assert size_upper_bound(key, value, headers) == size
    assert len(written(2147483647, -(2**63), key, value, headers)) // 2 <= size
