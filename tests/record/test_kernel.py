"""The kernel, compiled and as plain Python: the fixture `kernel` gives both, and every test runs on each.

Record bytes are written out by hand: length · attributes · timestamp delta · offset delta · key length · key · ..
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import milepost
from milepost.errors import InvalidArgument, InvalidRecord
from tests.record.octets import LONG_MAX, TIME, WORKED, octets

PLAIN = "10 00 00 00 02 6b 02 76 00"  # k -> v, both deltas 0


def scan(kernel, data: bytes, count: int, base_timestamp: int = 0):
    return kernel.scan_records(data, 0, len(data), count, base_timestamp)


def test_twins_are_what_they_claim(kernel):
    compiled = not kernel.__file__.endswith(".py")
    assert type(kernel.scan_records).__name__ == ("cython_function_or_method" if compiled else "function")


# scan_records


def test_worked_batch(kernel):
    assert kernel.scan_records(WORKED, 61, 88, 2, TIME) == (TIME + 5, 1, TIME, 1, True)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
def test_any_buffer_of_bytes(kernel, kind):
    assert kernel.scan_records(kind(WORKED), 61, 88, 2, TIME) == (TIME + 5, 1, TIME, 1, True)


def test_no_records_means_that_nothing_is_looked_at(kernel):
    assert kernel.scan_records(b"\xff\xff", 0, 2, 0, TIME) == (-1, -1, -1, -1, True)
    assert kernel.scan_records(b"", 0, 0, 0, 0) == (-1, -1, -1, -1, True)


def test_the_first_of_equal_maxima_counts(kernel):
    data = octets("10 00 0a 00 02 6b 02 76 00", "10 00 0a 02 02 6b 02 76 00", "10 00 02 04 02 6b 02 76 00")
    assert scan(kernel, data, 3, 100) == (105, 0, 101, -1, True)


@pytest.mark.parametrize(("base", "expected"), [(-1000, (-1, -1, -1000)), (-1, (-1, -1, -1)), (0, (0, 0, 0))])
def test_negative_timestamps_leave_the_maximum_at_minus_one(kernel, base, expected):
    assert scan(kernel, octets(PLAIN), 1, base)[:3] == expected


def test_timestamps_wrap_as_in_java(kernel):
    longest = octets("22 00 fe ff ff ff ff ff ff ff ff 01 00 02 6b 02 76 00")
    assert scan(kernel, longest, 1, 1)[:3] == (-1, -1, -LONG_MAX - 1)
    shortest = longest.replace(octets("fe ff ff ff"), octets("ff ff ff ff"))
    assert scan(kernel, shortest, 1, -1)[:3] == (LONG_MAX, 0, LONG_MAX)


@pytest.mark.parametrize(
    ("deltas", "sequential"),
    [("00 02 04", True), ("00 02 06", False), ("02 04 06", False), ("00 00 00", False), ("04 02 00", False)],
)
def test_offset_deltas_in_sequence(kernel, deltas, sequential):
    data = b"".join(octets("10 00 00", delta, "02 6b 02 76 00") for delta in deltas.split())
    assert scan(kernel, data, 3)[4] is sequential


def test_first_null_key_is_found_and_an_empty_key_is_none(kernel):
    empty, null, other_null = "0e 00 00 00 00 02 76 00", "0e 00 00 02 01 02 76 00", "0e 00 00 04 7f 02 76 00"
    assert scan(kernel, octets(empty, null, other_null), 3)[3] == 1
    assert scan(kernel, octets(empty), 1)[3] == -1


def test_null_value_and_null_header_value(kernel):
    assert scan(kernel, octets("14 00 00 00 02 6b 01 02 02 68 01"), 1) == (0, 0, 0, -1, True)


def test_padded_varints_are_read_as_kafka_does(kernel):
    assert scan(kernel, octets("92 00 00 80 00 00 02 6b 02 76 00"), 1) == (0, 0, 0, -1, True)


DAMAGE = {
    "nothing there": ("", 1, "1 records of at least 7 bytes do not fit the 0 bytes at position 0"),
    "more records than bytes": (PLAIN, 2147483647, "2147483647 records of at least 7 bytes do not fit the 9 bytes at position 0"),
    "one record too many": (
        PLAIN + "0e 00 00 02 02",
        2,
        "record 1: its length, 7, stands before position 10, where 4 bytes are left",
    ),
    "one record too few": (PLAIN + PLAIN, 1, "9 bytes are left over at position 9, behind the last of 1 records"),
    "length larger than the data": (
        "12 00 00 00 02 6b 02 76 00",
        1,
        "record 0: its length, 9, stands before position 1, where 8",
    ),
    "negative length": (
        "01 00 00 00 02 6b 02 76 00",
        1,
        "record 0: its length, -1, stands before position 1, where 8 bytes are left",
    ),
    "length of zero": ("00 00 00 00 00 00 00", 1, "record 0: the number at position 1 is cut by the end of the record at 1"),
    "length that is one short": ("0e 00 00 00 02 6b 02 76 00", 1, "record 0: the number at position 8 is cut .* at 8"),
    "length that is one long": ("12 00 00 00 02 6b 02 76 00 00", 1, "record 0: its fields end at position 9, its length says 10"),
    "key past the record": (
        "10 00 00 00 0a 6b 02 76 00",
        1,
        "record 0: a key or value of 5 bytes at position 5 runs past .* at 9",
    ),
    "key as long as an integer goes": (
        "16 00 00 00 fe ff ff ff 0f 02 76 00",
        1,
        "a key or value of 2147483647 bytes at position 9",
    ),
    "value past the record": (
        "10 00 00 00 02 6b 06 76 00",
        1,
        "record 0: a key or value of 3 bytes at position 7 runs past .* at 9",
    ),
    "negative header count": (
        "10 00 00 00 02 6b 02 76 01",
        1,
        "record 0: -1 headers are declared before position 9, where 0 bytes",
    ),
    "more headers than bytes": (
        "14 00 00 00 02 6b 02 76 06 00 01",
        1,
        "record 0: 3 headers are declared before position 9, where 2",
    ),
    "header without bytes": ("12 00 00 00 02 6b 02 76 02 00", 1, "record 0: the number at position 10 is cut"),
    "null header key": ("14 00 00 00 02 6b 02 76 02 01 01", 1, "record 0: the header key before position 10 has length -1"),
    "header key past the record": (
        "14 00 00 00 02 6b 02 76 02 06 68",
        1,
        "a key or value of 3 bytes at position 10 runs past .* at 11",
    ),
    "header value past the record": ("16 00 00 00 02 6b 02 76 02 00 04 78", 1, "a key or value of 2 bytes at position 11"),
    "endless length": ("ff ff ff ff ff 00 00 00 00", 1, "record 0: the number at position 0 does not end within the 5 bytes"),
    "endless timestamp": (
        "1c 00 80 80 80 80 80 80 80 80 80 80 00 00 00",
        1,
        "record 0: the number at position 2 does not end within",
    ),
    "timestamp of more than 64 bits": (
        "1c 00 80 80 80 80 80 80 80 80 80 02 00 00 00",
        1,
        "position 2 carries more than the 32 bits",
    ),
    "length of more than 32 bits": (
        "ff ff ff ff 10 00 00 00 00",
        1,
        "record 0: the number at position 0 carries more than the 32 bits",
    ),
    "in the second record": (PLAIN + "10 00 00 02 0a 6b 02 76 00", 2, "record 1: a key or value of 5 bytes at position 14"),
}


@pytest.mark.parametrize(("data", "count", "sentence"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_record_is_named_by_its_byte(kernel, data, count, sentence):
    for damaged in (octets(data), bytearray.fromhex(data)):
        with pytest.raises(InvalidRecord, match=sentence):
            kernel.scan_records(damaged, 0, len(damaged), count, 0)
        with pytest.raises(InvalidRecord, match=sentence):
            kernel.decode_records(damaged, 0, len(damaged), count, 0, 0)


def test_position_counts_from_the_start_of_the_buffer(kernel):
    data = bytes(1000) + octets("10 00 00 00 0a 6b 02 76 00")
    with pytest.raises(InvalidRecord, match="5 bytes at position 1005 runs past the end of the record at 1009"):
        kernel.scan_records(data, 1000, len(data), 1, 0)


def test_nothing_behind_the_end_is_read(kernel):
    data = octets(PLAIN)
    for end in range(9):
        with pytest.raises(InvalidRecord):
            kernel.scan_records(data, 0, end, 1, 0)


def test_negative_count(kernel):
    with pytest.raises(InvalidRecord, match="the record count is -1"):
        scan(kernel, octets(PLAIN), -1)


@pytest.mark.parametrize(("start", "end"), [(-1, 9), (0, 10), (5, 4)])
def test_range_outside_the_buffer(kernel, start, end):
    for call in (
        lambda data: kernel.scan_records(data, start, end, 1, 0),
        lambda data: kernel.decode_records(data, start, end, 1, 0, 0),
        lambda data: kernel.find_batch(data, start, end, 0, 1),
    ):
        with pytest.raises(InvalidArgument, match=f"bytes {start} to {end} of a buffer of 9"):
            call(octets(PLAIN))


@pytest.mark.parametrize("kernel", ["compiled"], indirect=True)
def test_large_batches_are_scanned_without_the_gil(kernel):
    data = octets(PLAIN) * 1_000_000  # some 10 ms
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that a thread runs only when another gives the GIL away
    try:
        assert any(_other_thread_ran_during(lambda: kernel.scan_records(data, 0, len(data), 1_000_000, 0)) for _ in range(20))
    finally:
        sys.setswitchinterval(interval)


def _other_thread_ran_during(call) -> bool:
    go, done, seen = threading.Event(), [], []
    thread = threading.Thread(target=lambda: (go.wait(), seen.append(len(done))))
    thread.start()
    go.set()
    call()
    done.append(True)
    thread.join()
    return seen == [0]


# Without Cython


def test_plain_kernel_runs_where_cython_is_not_installed():
    program = f"""
import sys
sys.path[:] = {sys.path!r}
sys.path.insert(0, {str(Path(milepost.__file__).parents[1])!r})
sys.modules["cython"] = sys.modules["Cython"] = None
import milepost.record.kernel as kernel
assert kernel.__file__.endswith(".py"), kernel.__file__
worked = bytes.fromhex({WORKED.hex()!r})
print(kernel.scan_records(worked, 61, 88, 2, {TIME}))
columns = kernel.decode_records(worked, 61, 88, 2, 100, {TIME})
print(kernel.encode_records(columns, worked, worked, worked, 100, {TIME}) == worked[61:])
print(kernel.find_batch(worked, 0, 88, 0, 1000))
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"MILEPOST_PURE": "1"})
    assert answer.stderr == ""
    assert answer.stdout == f"({TIME + 5}, 1, {TIME}, 1, True)\nTrue\n0\n"
