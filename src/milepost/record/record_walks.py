# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What a broker does with a million records, without an object for each: number them anew, find one by its time, name the wrong ones.

Cython in pure-Python mode, as `record/kernel`, whose `scan_records` has found the records sound before. Numbers are read here without
saying what would be wrong with them; no byte is read that is not there, though, whatever became of the buffer meanwhile.
"""

from __future__ import annotations

from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.kernel import scan_records

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if cython.compiled:
    from cython.cimports.milepost.codec.octets import checked_varint_at, plus, put_bytes, put_varint, varint_size
else:
    from milepost.codec import no_cython as cython
    from milepost.codec.octets import checked_varint_at, plus, put_bytes, put_varint, varint_size

i64 = cython.typedef(cython.longlong)
Size = cython.typedef(cython.Py_ssize_t)
Octets = cython.typedef(cython.pointer[cython.const[cython.uchar]])

UNSCANNED = "the records changed after they were scanned"


@cython.locals(error=i64, size=Size)
def renumber_records(buffer: cython.const[cython.uchar][::1], start: Size, end: Size, count: i64):
    """The records of `buffer[start:end]`, which were scanned before, with the offset deltas 0, 1, .. count-1; all else as it was."""
    if count == 0:
        return b""
    _check_range(len(buffer), start, end)
    data: Octets = cython.address(buffer[0]) if cython.compiled else buffer
    target: cython.p_uchar = cython.NULL if cython.compiled else None
    with cython.nogil:
        error, size = _renumber(data, start, end, count, target, -1)
    if error != 0:
        raise InvalidRecord(UNSCANNED)
    out = bytearray(size)
    room: cython.uchar[::1] = out
    target = cython.address(room[0]) if cython.compiled else out
    with cython.nogil:
        error, _ = _renumber(data, start, end, count, target, size)
    if error != 0:
        raise InvalidRecord(UNSCANNED)
    return out


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((i64, Size))
@cython.locals(at=Size, written=Size, index=i64, number=i64, record_end=Size, behind=Size, deltas=Size, length=i64)
def _renumber(data: Octets, start: Size, end: Size, count: i64, target: cython.p_uchar, room: Size):
    """How many bytes it takes; with `room` for them they are written to `target`."""
    at = start
    written = 0
    for index in range(count):
        number, at = checked_varint_at(data, at, end)
        if at < 0 or number < 1 or number > end - at:
            return 1, 0
        record_end = at + number
        deltas = at
        number, at = checked_varint_at(data, at + 1, record_end)
        if at < 0:
            return 1, 0
        behind = at
        number, at = checked_varint_at(data, at, record_end)
        if at < 0:
            return 1, 0
        length = behind - deltas + varint_size(index) + record_end - at
        if room >= 0:
            if varint_size(length) + length > room - written:
                return 1, 0
            written = put_varint(target, written, length)
            written = put_bytes(target, written, data, deltas, behind - deltas)
            written = put_varint(target, written, index)
            written = put_bytes(target, written, data, at, record_end - at)
        else:
            written += varint_size(length) + length
        at = record_end
    return 0, written


@cython.locals(error=i64, index=i64, offset_delta=i64, timestamp=i64)
def find_record(
    buffer: cython.const[cython.uchar][::1],
    start: Size,
    end: Size,
    count: i64,
    base_timestamp: i64,
    least_timestamp: i64,
    least_delta: i64,
):
    """The first record of `buffer[start:end]` that is not older than `least_timestamp` and has at least this offset delta.

    (index, offset delta, timestamp), or None. All records are checked first, as `scan_records` does.
    """
    scan_records(buffer, start, end, count, base_timestamp)
    if count == 0:
        return None
    data: Octets = cython.address(buffer[0]) if cython.compiled else buffer
    with cython.nogil:
        error, index, offset_delta, timestamp = _find(data, start, end, count, base_timestamp, least_timestamp, least_delta)
    if error != 0:
        raise InvalidRecord(UNSCANNED)
    return (index, offset_delta, timestamp) if index >= 0 else None


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((i64, i64, i64, i64))
@cython.locals(at=Size, index=i64, number=i64, record_end=Size, timestamp=i64, offset_delta=i64)
def _find(data: Octets, start: Size, end: Size, count: i64, base_timestamp: i64, least_timestamp: i64, least_delta: i64):
    at = start
    for index in range(count):
        number, at = checked_varint_at(data, at, end)
        if at < 0 or number < 1 or number > end - at:
            return 1, 0, 0, 0
        record_end = at + number
        number, at = checked_varint_at(data, at + 1, record_end)
        if at < 0:
            return 1, 0, 0, 0
        timestamp = plus(base_timestamp, number)
        offset_delta, at = checked_varint_at(data, at, record_end)
        if at < 0:
            return 1, 0, 0, 0
        if timestamp >= least_timestamp and offset_delta >= least_delta:
            return 0, index, offset_delta, timestamp
        at = record_end
    return 0, -1, 0, 0


@cython.locals(error=i64, found=i64, others=i64, at=Size, index=i64, timestamp=i64, kind=cython.int, kinds=i64, first_index=i64)
def refused_records(
    buffer: cython.const[cython.uchar][::1],
    start: Size,
    end: Size,
    count: i64,
    base_timestamp: i64,
    earliest: i64,
    latest: i64,
    needs_key: cython.bint,
    most: i64,
):
    """Which records of `buffer[start:end]`, scanned before, have no key where one is needed, or a time outside of `earliest` .. `latest`.

    (how many, whether the time of one is wrong, [(index, timestamp, whether the key is missing), ..] of the first `most`). A record
    without a timestamp (-1) is at no time that could be wrong.
    """
    rows: list = []
    if count == 0:
        return 0, False, rows
    _check_range(len(buffer), start, end)
    data: Octets = cython.address(buffer[0]) if cython.compiled else buffer
    found = others = index = 0
    at = start
    is_time_wrong = False
    while index < count:
        # To the next one that is refused; and when enough of them are known, to the end.
        with cython.nogil:
            error, at, index, timestamp, kinds, others = _next_refused(
                data, at, end, index, count, base_timestamp, earliest, latest, needs_key, found >= most
            )
        if error != 0:
            raise InvalidRecord(UNSCANNED)
        if kinds == 0:
            break
        found += others
        is_time_wrong = is_time_wrong or kinds >= 2
        if len(rows) < most:
            rows.append((index - 1, timestamp, kinds == 1))
    return found, is_time_wrong, rows


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((i64, Size, i64, i64, i64, i64))
@cython.locals(number=i64, record_end=Size, timestamp=i64, kinds=i64, refused=i64)
def _next_refused(
    data: Octets, at: Size, end: Size, index: i64, count: i64, base_timestamp: i64, earliest: i64, latest: i64,
    needs_key: cython.bint, to_the_end: cython.bint,
):  # fmt: skip
    """An error, or: where to go on, at which record, the timestamp of the one before it, what is wrong (1 key, 2 time), how many."""
    kinds = refused = 0
    while index < count:
        number, at = checked_varint_at(data, at, end)
        if at < 0 or number < 1 or number > end - at:
            return 1, 0, 0, 0, 0, 0
        record_end = at + number
        number, at = checked_varint_at(data, at + 1, record_end)
        if at < 0:
            return 1, 0, 0, 0, 0, 0
        timestamp = plus(base_timestamp, number)
        number, at = checked_varint_at(data, at, record_end)
        if at < 0:
            return 1, 0, 0, 0, 0, 0
        number, at = checked_varint_at(data, at, record_end)
        if at < 0:
            return 1, 0, 0, 0, 0, 0
        at = record_end
        index += 1
        if needs_key and number < 0:
            kinds |= 1
        elif timestamp != -1 and not earliest <= timestamp <= latest:
            kinds |= 2
        else:
            continue
        refused += 1
        if not to_the_end:
            return 0, at, index, timestamp, kinds, refused
    return 0, at, index, 0, kinds, refused


@cython.cfunc
def _check_range(length: Size, start: Size, end: Size):
    if not 0 <= start <= end <= length:
        raise InvalidArgument(f"bytes {start} to {end} of a buffer of {length}")
