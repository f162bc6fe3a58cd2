"""The kernel under random and damaged bytes: both twins answer alike, and only with the errors they document."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.batches import batch_at
from tests.conftest import twin
from tests.fuzz.coverage_guided import needs_atheris, run_target

EXAMPLES = settings(max_examples=400)
LONGS = st.integers(-(2**63), 2**63 - 1)
SMALL_OR_LONG = st.integers(-3, 200) | LONGS
# Two records, leader epoch 7, base offset 100; the second half is their bytes.
WORKED = bytes.fromhex(
    "00000000000000640000004c000000070232deae190000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff00000002"
    "14000000046b31047631001e000a02010a68656c6c6f0202680278"
)
V1 = bytes.fromhex("00000000000000050000001839268c3301000000018bcfe56800000000016b0000000176")
# Bytes that mean something to a parser: small numbers, lengths, the edges of a varint.
TELLING = st.sampled_from(bytes.fromhex("00010203040a0e107e7f80818ffeff"))
RECORD_BYTES = st.binary(max_size=120) | st.lists(TELLING, max_size=60).map(bytes)


@pytest.fixture(scope="module")
def twins():
    return twin("milepost.record.kernel", "compiled"), twin("milepost.record.kernel", "pure")


def outcome(call):
    """What a call gives, or the class and sentence of the error it documents."""
    try:
        return call()
    except (InvalidArgument, InvalidRecord) as error:
        return type(error).__name__, str(error)


def columns(kernel, answer):
    return answer if isinstance(answer, tuple) else {name: getattr(answer, name) for name in kernel.Columns.__slots__}


@st.composite
def damaged(draw, data: bytes) -> bytes:
    """`data` with a few bytes changed, cut out or put in."""
    octets = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(len(octets) - 1, 0)))
        match draw(st.integers(0, 3)):
            case 0 if octets:
                octets[position] = draw(TELLING)
            case 1 if octets:
                octets[position] ^= 1 << draw(st.integers(0, 7))
            case 2:
                octets[position:position] = bytes([draw(TELLING)])
            case 3:
                del octets[position : position + draw(st.integers(1, 8))]
    return bytes(octets)


@EXAMPLES
@given(
    data=RECORD_BYTES | damaged(WORKED[61:]) | damaged(WORKED[61:] * 4),
    count=st.integers(0, 9),
    timestamp=SMALL_OR_LONG,
    offset=SMALL_OR_LONG,
)
def test_records_from_any_bytes(twins, data, count, timestamp, offset):
    scanned = [outcome(lambda k=k: k.scan_records(data, 0, len(data), count, timestamp)) for k in twins]
    assert scanned[0] == scanned[1]
    decoded = [columns(k, outcome(lambda k=k: k.decode_records(data, 0, len(data), count, offset, timestamp))) for k in twins]
    assert decoded[0] == decoded[1]
    if isinstance(decoded[0], tuple):
        assert decoded[0] == scanned[0]
    elif count:
        timestamps = decoded[0]["timestamps"].tolist()
        assert scanned[0][0] == max([-1, *timestamps])
        assert scanned[0][2] == min(timestamps)


@EXAMPLES
@given(data=RECORD_BYTES, start=st.integers(-2, 130), end=st.integers(-2, 130), count=st.integers(-2, 2**31))
def test_any_range_of_the_buffer(twins, data, start, end, count):
    answers = [outcome(lambda k=k: k.scan_records(data, start, end, count, 0)) for k in twins]
    assert answers[0] == answers[1]


LENGTHS = st.none() | st.integers(0, 80) | st.integers(8180, 8200)


@EXAMPLES
@given(
    rows=st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), LONGS, LENGTHS, LENGTHS, st.integers(0, 3)), max_size=6),
    base_offset=st.integers(0, 2**40),
    base_timestamp=LONGS,
)
def test_what_is_encoded_is_decoded(twins, rows, base_offset, base_timestamp):
    keys = values = bytes(range(256)) * 33
    header = bytes.fromhex("02680278") * 3
    encoded = []
    for kernel in twins:
        given_columns = kernel.Columns(len(rows))
        for row, (delta, timestamp, key, value, headers) in enumerate(rows):
            given_columns.offsets[row] = base_offset + delta
            given_columns.timestamps[row] = timestamp
            given_columns.key_start[row] = given_columns.value_start[row] = row
            given_columns.key_length[row] = -1 if key is None else key
            given_columns.value_length[row] = -1 if value is None else value
            given_columns.header_count[row] = headers
            given_columns.header_end[row] = 4 * headers
        encoded.append(kernel.encode_records(given_columns, keys, values, header, base_offset, base_timestamp))
    assert encoded[0] == encoded[1]
    section = encoded[0]
    for kernel in twins:
        read = kernel.decode_records(section, 0, len(section), len(rows), base_offset, base_timestamp)
        assert read.offsets == array("q", [base_offset + row[0] for row in rows])
        assert read.timestamps == array("q", [row[1] for row in rows])
        assert list(read.header_count) == [row[4] for row in rows]
        for row, (_, _, key, value, headers) in enumerate(rows):
            for start, length, expected, source in (
                (read.key_start[row], read.key_length[row], key, keys),
                (read.value_start[row], read.value_length[row], value, values),
            ):
                assert length == (-1 if expected is None else expected)
                assert length < 0 or section[start : start + length] == source[row : row + length]
            assert section[read.header_start[row] : read.header_end[row]] == header[: 4 * headers]


@EXAMPLES
@given(number=st.lists(TELLING, min_size=1, max_size=11).map(bytes), bits=st.sampled_from([32, 64]))
def test_numbers_are_read_as_the_format_says(twins, number, bits):
    """The number stands for the timestamp delta or the offset delta of a record; zeros follow, so that it is not cut."""
    number += b"\0"
    end = next(at for at, byte in enumerate(number, 1) if byte < 0x80)
    raw = sum((byte & 0x7F) << (7 * at) for at, byte in enumerate(number[:end]))
    is_endless = end > (10 if bits == 64 else 5)
    body = b"\0" + (number[:end] + b"\0" if bits == 64 else b"\0" + number[:end]) + b"\x01\x01\x00"
    record = bytes([2 * len(body)]) + body
    for kernel in twins:
        answer = outcome(lambda k=kernel: k.decode_records(record, 0, len(record), 1, 0, 0))
        if not is_endless and raw < 2**bits:
            assert (answer.timestamps if bits == 64 else answer.offsets)[0] == (raw >> 1) ^ -(raw & 1)
        else:
            assert answer[0] == "InvalidRecord"
            assert ("does not end within" in answer[1]) == is_endless


@st.composite
def logs(draw) -> bytes:
    pieces = st.sampled_from([WORKED, V1, bytes(40), b"\xff" * 20]) | damaged(WORKED) | damaged(V1) | st.binary(max_size=60)
    return b"".join(draw(st.lists(pieces, max_size=5)))


@EXAMPLES
@given(data=logs(), limits=st.tuples(SMALL_OR_LONG, SMALL_OR_LONG), cut=st.integers(0, 90))
def test_batches_from_any_bytes(twins, data, limits, cut):
    end = max(len(data) - cut, 0)
    found = [kernel.find_batch(data, 0, end, min(limits), max(limits)) for kernel in twins]
    assert found[0] == found[1]
    if found[0] >= 0:
        batch = batch_at(data, found[0])
        assert batch.position + batch.size <= end
        assert batch.is_valid()
        first_offset = batch.base_offset if batch.magic == 2 else batch.last_offset
        assert min(limits) <= first_offset <= batch.last_offset <= max(limits)


@EXAMPLES
@given(data=st.lists(TELLING, max_size=200).map(bytes) | st.binary(max_size=200), kind=st.sampled_from([8, 12]))
def test_index_slots_from_any_bytes(twins, data, kind):
    entries = len(data) // kind
    answers = [kernel.check_entries(data, entries, kind) for kernel in twins]
    assert answers[0] == answers[1]
    assert -1 <= answers[0] < max(entries, 1)
    if answers[0] > 0:
        assert twins[0].check_entries(data, answers[0], kind) == -1


@needs_atheris
def test_coverage_guided_run(tmp_path):
    run_target("fuzz_kernel", tmp_path, "-atheris_runs=20000", "-max_len=400", "-rss_limit_mb=512")
