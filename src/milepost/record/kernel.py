# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The hot loops over record bytes: check, decode and encode the records of a batch, find batches, check index slots.

This file is Cython in pure-Python mode. It runs as it stands, and about a hundred times faster when compiled; both twins give
the same answers and the same errors, and the same tests run on both. C integers wrap, Python's do not, so 64-bit
sums go through `plus` and `minus` (`codec/octets`), which wrap as Java's do.

The C code reads memory without Python's help, so every read is checked here: `data[at]` stands behind a test of `at`
against an end that was itself tested against the length of the buffer. A byte is read once and kept, never read a second time
after its check, because another thread may write to the buffer while the loop runs without the GIL.

A record, as `scan_records` checks it (all numbers are varints, zigzag, at most 5 bytes; timestamp_delta 10):

    length · attributes (1 byte) · timestamp_delta · offset_delta · key length · key · value length · value
    header count · headers
    header: key length (not negative) · key · value length · value          a negative length is null

Positions, in results and in errors, count from the start of the buffer that was passed.
Not promised: errors for arguments that do not fit 64 bits, or for buffers of other items than bytes.
"""

from __future__ import annotations

from array import array
from zlib import crc32

from milepost.codec.crc32c import crc32c
from milepost.errors import InvalidArgument, InvalidRecord

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if cython.compiled:
    from cython.cimports.milepost.codec.octets import (
        CUT,
        int32_at,
        int64_at,
        minus,
        octets_of,
        plus,
        put_bytes,
        put_varint,
        varint_at,
        varint_size,
    )
else:
    # Also where Cython is installed: its own stand-ins for C types make plain Python several times slower.
    from milepost.codec import no_cython as cython
    from milepost.codec.octets import (
        CUT,
        int32_at,
        int64_at,
        minus,
        octets_of,
        plus,
        put_bytes,
        put_varint,
        varint_at,
        varint_size,
    )

i64 = cython.typedef(cython.longlong)
Size = cython.typedef(cython.Py_ssize_t)
Octets = cython.typedef(cython.pointer[cython.const[cython.uchar]])
Longs = cython.typedef(cython.pointer[cython.longlong])
Ints = cython.typedef(cython.pointer[cython.int])

INT_MAX = 2**31 - 1
MIN_RECORD_SIZE = 7
RELEASE_GIL_ABOVE = 32768  # bytes; for less, giving the GIL away and taking it back costs more than it frees

# What can be wrong with a record, behind what can be wrong with a varint (1 to 3). C variables, since the loops that set them cannot
# reach Python's.
BAD_LENGTH = cython.declare(cython.int, 4)
FIELD_PAST_END = cython.declare(cython.int, 5)
BAD_HEADER_COUNT = cython.declare(cython.int, 6)
NULL_HEADER_KEY = cython.declare(cython.int, 7)
OTHER_LENGTH = cython.declare(cython.int, 8)
LEFT_OVER = cython.declare(cython.int, 9)
TOO_MANY = cython.declare(cython.int, 10)

MAX_OVERHEAD = cython.declare(cython.int, 36)  # of a record: attributes, six varints of 5 bytes, a varlong of 10

UNENCODABLE = {
    1: "its key lies outside the buffer of keys",
    2: "its value lies outside the buffer of values",
    3: "its headers lie outside the buffer of headers, or their count is negative",
    4: "its offset is more than 32 bits away from the base offset",
    5: "it grew while it was encoded",
}

SENTENCES = {
    1: "record {index}: the number at position {position} is cut by the end of the record at {limit}",
    2: "record {index}: the number at position {position} does not end within the 5 bytes of a varint or the 10 of a varlong",
    3: "record {index}: the number at position {position} carries more than the 32 bits of a varint or the 64 of a varlong",
    4: "record {index}: its length, {number}, stands before position {position}, where {limit} bytes are left",
    5: "record {index}: a key or value of {number} bytes at position {position} runs past the end of the record at {limit}",
    6: "record {index}: {number} headers are declared before position {position}, where {limit} bytes of the record are left",
    7: "record {index}: the header key before position {position} has length {number}; a header key may not be null",
    8: "record {index}: its fields end at position {position}, its length says {limit}",
    9: "{number} bytes are left over at position {position}, behind the last of {index} records",
    10: "{number} records of at least 7 bytes do not fit the {limit} bytes at position {position}",
}

ONE_LONG, ONE_INT = array("q", (0,)), array("i", (0,))


class Columns:
    """The records of one batch, column by column. Bytes stay where they are: columns hold positions in the buffer.

    offsets, timestamps           array of 64 bits
    key_start, value_start        array of 32 bits, as are all below
    key_length, value_length      -1: null
    header_count
    header_start, header_end      the encoded headers, behind their count
    """

    __slots__ = (
        "header_count",
        "header_end",
        "header_start",
        "key_length",
        "key_start",
        "offsets",
        "timestamps",
        "value_length",
        "value_start",
    )

    def __init__(self, count: int = 0):
        self.offsets = ONE_LONG * count
        self.timestamps = ONE_LONG * count
        self.key_start = ONE_INT * count
        self.key_length = ONE_INT * count
        self.value_start = ONE_INT * count
        self.value_length = ONE_INT * count
        self.header_start = ONE_INT * count
        self.header_end = ONE_INT * count
        self.header_count = ONE_INT * count

    def __len__(self) -> int:
        return len(self.offsets)


@cython.locals(error=i64, first=i64, second=i64, third=i64, fourth=i64, fifth=i64)
def scan_records(buffer, start: Size, end: Size, count: i64, base_timestamp: i64):
    """Checks every record of `buffer[start:end]`; InvalidRecord names the byte at fault.

    Returns (max_timestamp, index of the first record that has it, min_timestamp, index of the first record without
    a key or -1, whether the offset deltas are exactly 0, 1, .. count-1). The maximum starts at -1, so a batch of
    negative timestamps gives (-1, -1, ...), as in Kafka.
    """
    if count == 0:  # nothing is looked at, not even bytes left over
        return -1, -1, -1, -1, True
    _check_range(len(buffer), start, end, count)
    view = memoryview(buffer)  # its own, which nobody else releases meanwhile
    data: Octets = octets_of(view)
    longs: Longs = cython.NULL if cython.compiled else None
    ints: Ints = cython.NULL if cython.compiled else None
    if end - start > RELEASE_GIL_ABOVE:
        with cython.nogil:
            error, first, second, third, fourth, fifth = _walk(
                data, start, end, count, 0, base_timestamp, False, longs, longs, ints, ints, ints, ints, ints, ints, ints
            )
    else:
        error, first, second, third, fourth, fifth = _walk(
            data, start, end, count, 0, base_timestamp, False, longs, longs, ints, ints, ints, ints, ints, ints, ints
        )
    if error != 0:
        raise _damage(error, first, second, third, fourth)
    return first, second, third, fourth, fifth != 0


@cython.locals(error=i64, first=i64, second=i64, third=i64, fourth=i64, _fifth=i64)
def decode_records(
    buffer: cython.const[cython.uchar][::1],
    start: Size,
    end: Size,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
):
    """The records of `buffer[start:end]` as Columns, after the same checks as `scan_records`."""
    if count == 0:
        return Columns(0)
    _check_range(len(buffer), start, end, count)
    if end > INT_MAX:
        raise InvalidArgument(f"the records end at byte {end} of the buffer; columns hold positions up to {INT_MAX}")
    columns = Columns(count)
    data: Octets = cython.address(buffer[0]) if cython.compiled else buffer
    offsets: Longs = _longs(columns.offsets)
    timestamps: Longs = _longs(columns.timestamps)
    key_start: Ints = _ints(columns.key_start)
    key_length: Ints = _ints(columns.key_length)
    value_start: Ints = _ints(columns.value_start)
    value_length: Ints = _ints(columns.value_length)
    header_start: Ints = _ints(columns.header_start)
    header_end: Ints = _ints(columns.header_end)
    header_count: Ints = _ints(columns.header_count)
    with cython.nogil:
        error, first, second, third, fourth, _fifth = _walk(
            data, start, end, count, base_offset, base_timestamp, True,
            offsets, timestamps, key_start, key_length, value_start, value_length, header_start, header_end, header_count,
        )  # fmt: skip
    if error != 0:
        raise _damage(error, first, second, third, fourth)
    return columns


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((i64, i64, i64, i64, i64, i64))
@cython.locals(at=Size, field=Size, record_end=Size, error=i64, index=i64, number=i64, timestamp=i64, offset_delta=i64)
@cython.locals(max_timestamp=i64, max_index=i64, min_timestamp=i64, null_key_index=i64, sequential=i64)
def _walk(
    data: Octets, start: Size, end: Size, count: i64, base_offset: i64, base_timestamp: i64, keep: cython.bint,
    offsets: Longs, timestamps: Longs, key_start: Ints, key_length: Ints, value_start: Ints, value_length: Ints,
    header_start: Ints, header_end: Ints, header_count: Ints,
):  # fmt: skip
    """The one walk over records, for both readers; with `keep` it fills the columns.

    Returns 0 and the five results of `scan_records`, or an error and the position, number, limit and index of its sentence.

    It is long because it keeps ten columns and five results up to date, number by number. Keys, values and headers are read below;
    to read the first numbers of a record there, too, costs 3 % of a scan.
    """
    at = start
    max_timestamp = min_timestamp = max_index = null_key_index = -1
    sequential = 1

    for index in range(count):
        field = at
        number, at = varint_at(data, field, end, 32)
        if at < 0:
            return -at, field, 0, end, index, 0
        if number < 0 or number > end - at:
            return BAD_LENGTH, at, number, end - at, index, 0
        record_end = at + number

        if number == 0:
            return CUT, at, 0, record_end, index, 0
        field = at + 1  # behind the attributes, which have no meaning yet
        number, at = varint_at(data, field, record_end, 64)
        if at < 0:
            return -at, field, 0, record_end, index, 0
        timestamp = plus(base_timestamp, number)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
            max_index = index
        if timestamp < min_timestamp or index == 0:
            min_timestamp = timestamp

        field = at
        offset_delta, at = varint_at(data, field, record_end, 32)
        if at < 0:
            return -at, field, 0, record_end, index, 0
        if offset_delta != index:
            sequential = 0

        error, at, number = _field(data, at, record_end)
        if error != 0:
            return error, at, number, record_end, index, 0
        if keep:
            offsets[index] = plus(base_offset, offset_delta)
            timestamps[index] = timestamp
            key_start[index] = at
            key_length[index] = number if number >= 0 else -1
        if number >= 0:
            at += number
        elif null_key_index < 0:
            null_key_index = index

        error, at, number = _field(data, at, record_end)
        if error != 0:
            return error, at, number, record_end, index, 0
        if keep:
            value_start[index] = at
            value_length[index] = number if number >= 0 else -1
        if number > 0:
            at += number

        field = at
        number, at = varint_at(data, field, record_end, 32)
        if at < 0:
            return -at, field, 0, record_end, index, 0
        if number < 0 or number > record_end - at:
            return BAD_HEADER_COUNT, at, number, record_end - at, index, 0
        if keep:
            header_start[index] = at
            header_end[index] = record_end
            header_count[index] = number
        if number > 0:
            error, at, number = _skip_headers(data, at, record_end, number)
            if error != 0:
                return error, at, number, record_end, index, 0

        if at != record_end:
            return OTHER_LENGTH, at, 0, record_end, index, 0

    if at != end:
        return LEFT_OVER, at, end - at, 0, count, 0
    return 0, max_timestamp, max_index, min_timestamp, null_key_index, sequential


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((i64, i64, i64))
@cython.locals(at=Size, length=i64)
def _field(data: Octets, start: Size, record_end: Size):
    """A key or a value: 0, where its bytes begin, and how many they are, below 0 for null. Or an error, its position and number."""
    length, at = varint_at(data, start, record_end, 32)
    if at < 0:
        return -at, start, 0
    if length > record_end - at:
        return FIELD_PAST_END, at, length
    return 0, at, length


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((i64, i64, i64))
@cython.locals(error=i64, length=i64)
def _skip_headers(data: Octets, at: Size, record_end: Size, count: i64):
    """The headers of a record: 0 and where they end. Or an error, its position and number."""
    while count > 0:
        error, at, length = _field(data, at, record_end)
        if error != 0:
            return error, at, length
        if length < 0:
            return NULL_HEADER_KEY, at, length
        error, at, length = _field(data, at + length, record_end)
        if error != 0:
            return error, at, length
        if length > 0:
            at += length
        count -= 1
    return 0, at, 0


@cython.cfunc
def _check_range(length: Size, start: Size, end: Size, count: i64):
    if not 0 <= start <= end <= length:
        raise InvalidArgument(f"bytes {start} to {end} of a buffer of {length}")
    if count < 0:
        raise InvalidRecord(f"the record count is {count}, the records start at position {start}")
    # Before memory is taken for them: a header may claim two thousand million records.
    if count > (end - start) // MIN_RECORD_SIZE:
        raise _damage(TOO_MANY, start, count, end - start, 0)


@cython.cfunc
def _damage(error: i64, position: i64, number: i64, limit: i64, index: i64):
    return InvalidRecord(SENTENCES[error].format(position=position, number=number, limit=limit, index=index))


@cython.cfunc
@cython.returns(Longs)
def _longs(column):
    """The array's memory, which the caller keeps alive; uncompiled, the array itself is written to."""
    return cython.cast(Longs, cython.cast(cython.size_t, column.buffer_info()[0])) if cython.compiled else column


@cython.cfunc
@cython.returns(Ints)
def _ints(column):
    return cython.cast(Ints, cython.cast(cython.size_t, column.buffer_info()[0])) if cython.compiled else column


@cython.locals(index=Size, at=Size, room=i64, offset_delta=i64, timestamp_delta=i64, wrong=cython.int)
@cython.locals(key_at=i64, key_size=i64, value_at=i64, value_size=i64, headers_at=i64, headers_size=i64, header_total=i64)
def encode_records(
    columns,
    keys: cython.const[cython.uchar][::1],
    values: cython.const[cython.uchar][::1],
    headers: cython.const[cython.uchar][::1],
    base_offset: i64,
    base_timestamp: i64,
) -> bytes:
    """The records section of a batch: `decode_records` reads the same columns back.

    The starts in `columns` are positions in `keys`, `values` and `headers`, which may be one buffer or three. Its columns may
    be anything that holds 64 and 32 bit integers as Columns do: arrays, Arrow or NumPy buffers.

    It is long because each of the nine columns is named twice: as memory, and as what a row has of it.
    """
    offsets: cython.const[cython.longlong][::1] = columns.offsets
    timestamps: cython.const[cython.longlong][::1] = columns.timestamps
    key_start: cython.const[cython.int][::1] = columns.key_start
    key_length: cython.const[cython.int][::1] = columns.key_length
    value_start: cython.const[cython.int][::1] = columns.value_start
    value_length: cython.const[cython.int][::1] = columns.value_length
    header_start: cython.const[cython.int][::1] = columns.header_start
    header_end: cython.const[cython.int][::1] = columns.header_end
    header_count: cython.const[cython.int][::1] = columns.header_count
    count: Size = len(offsets)
    _check_columns(columns, count)
    room = _most_bytes(key_length, value_length, header_start, header_end)
    out = bytearray(room)
    memory: cython.uchar[::1] = out
    target: cython.p_uchar = cython.address(memory[0]) if cython.compiled else out
    key_data: Octets = cython.address(keys[0]) if cython.compiled else keys
    value_data: Octets = cython.address(values[0]) if cython.compiled else values
    header_data: Octets = cython.address(headers[0]) if cython.compiled else headers
    keys_end: i64 = len(keys)
    values_end: i64 = len(values)
    headers_end: i64 = len(headers)
    at = wrong = 0
    with cython.nogil:
        for index in range(count):
            # Each column is read once, then checked, and so is the room: somebody else may write to them meanwhile.
            key_at = key_start[index]
            key_size = key_length[index]
            value_at = value_start[index]
            value_size = value_length[index]
            headers_at = header_start[index]
            headers_size = header_end[index] - headers_at
            header_total = header_count[index]
            offset_delta = minus(offsets[index], base_offset)
            timestamp_delta = minus(timestamps[index], base_timestamp)
            if key_size < -1 or key_at < 0 or key_size > keys_end - key_at:
                wrong = 1
            elif value_size < -1 or value_at < 0 or value_size > values_end - value_at:
                wrong = 2
            elif headers_size < 0 or headers_at < 0 or headers_size > headers_end - headers_at or header_total < 0:
                wrong = 3
            elif offset_delta < -2147483648 or offset_delta > 2147483647:
                wrong = 4
            elif MAX_OVERHEAD + max(key_size, 0) + max(value_size, 0) + headers_size > room - at:
                wrong = 5
            if wrong != 0:
                break
            at = _put_record(
                target, at, timestamp_delta, offset_delta,
                key_data, key_at, key_size, value_data, value_at, value_size, header_data, headers_at, headers_size, header_total,
            )  # fmt: skip
    if wrong != 0:
        raise InvalidArgument(f"row {index}: {UNENCODABLE[wrong]}")
    return bytes(memoryview(out)[:at])


@cython.cfunc
def _check_columns(columns, count: Size):
    for name in Columns.__slots__:
        if len(getattr(columns, name)) != count:
            raise InvalidArgument(f"column {name} has {len(getattr(columns, name))} rows, column offsets has {count}")


@cython.cfunc
@cython.exceptval(-1)
@cython.returns(i64)
@cython.locals(index=Size, most=i64, key_size=i64, value_size=i64, headers_size=i64)
def _most_bytes(
    key_length: cython.const[cython.int][::1], value_length: cython.const[cython.int][::1],
    header_start: cython.const[cython.int][::1], header_end: cython.const[cython.int][::1],
):  # fmt: skip
    """What the records in these columns may take, before room is made for them."""
    most = 0
    for index in range(len(key_length)):
        key_size = key_length[index]
        value_size = value_length[index]
        headers_size = cython.cast(i64, header_end[index]) - header_start[index]
        most += MAX_OVERHEAD + max(key_size, 0) + max(value_size, 0) + max(headers_size, 0)
    if most > INT_MAX:
        raise InvalidArgument(f"{len(key_length)} records may take {most} bytes; a batch holds less than {INT_MAX}")
    return most


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(Size)
@cython.locals(length=i64)
def _put_record(
    target: cython.p_uchar, at: Size, timestamp_delta: i64, offset_delta: i64,
    key_data: Octets, key_at: i64, key_size: i64, value_data: Octets, value_at: i64, value_size: i64,
    header_data: Octets, headers_at: i64, headers_size: i64, header_total: i64,
):  # fmt: skip
    """One record, for which there is room; the position behind it."""
    length = 1 + varint_size(timestamp_delta) + varint_size(offset_delta) + varint_size(header_total) + headers_size
    length += varint_size(key_size) + max(key_size, 0) + varint_size(value_size) + max(value_size, 0)
    at = put_varint(target, at, length)
    target[at] = 0
    at = put_varint(target, at + 1, timestamp_delta)
    at = put_varint(target, at, offset_delta)
    at = put_varint(target, at, key_size)
    at = put_bytes(target, at, key_data, key_at, key_size)
    at = put_varint(target, at, value_size)
    at = put_bytes(target, at, value_data, value_at, value_size)
    at = put_varint(target, at, header_total)
    return put_bytes(target, at, header_data, headers_at, headers_size)


# Batches. Bytes 8 to 11 hold the size behind the first 12, byte 16 the magic, in every format.


def find_batch(buffer, start: Size, end: Size, min_offset: i64, max_offset: i64) -> int:
    """The position of the first whole, valid batch that starts at `start` or behind it, or -1.

    Valid: it ends by `end`, its CRC is right (CRC-32C for magic 2, CRC-32 for 0 and 1), and its first and last offset lie in
    `min_offset` .. `max_offset` and are not negative. This tells damage in the middle of a log from a torn tail, so no place
    is skipped: every byte is tried. The time is linear on ordinary data; a thousand forged headers cost a thousand checksums.
    """
    octets: cython.const[cython.uchar][::1] = buffer
    if not 0 <= start <= end <= len(octets):
        raise InvalidArgument(f"bytes {start} to {end} of a buffer of {len(octets)}")
    data: Octets = cython.address(octets[0]) if cython.compiled else octets
    view = memoryview(buffer)
    at: Size = start
    min_offset = max(min_offset, 0)
    while True:
        with cython.nogil:
            at = _next_candidate(data, at, end, min_offset, max_offset)
        if at < 0:
            return -1
        if _is_intact(view, data, at, 12 + int32_at(data, at + 8), data[at + 16]):
            return at
        at += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(Size)
@cython.locals(size=i64, magic=cython.int, offset=i64, last_offset_delta=i64, record_count=i64)
def _next_candidate(data: Octets, at: Size, end: Size, min_offset: i64, max_offset: i64):
    """The next position whose header says nothing impossible: cheap to ask, so that few checksums are computed."""
    while end - at >= 26:
        magic = data[at + 16]
        if magic <= 2:
            size = 12 + int32_at(data, at + 8)
            if _min_size(magic) <= size <= end - at:  # asked first: zeros, the common filling, stop here
                offset = int64_at(data, at)
                if magic == 2:
                    last_offset_delta = int32_at(data, at + 23)
                    record_count = int32_at(data, at + 57)
                    if (
                        min_offset <= offset <= max_offset
                        and 0 <= last_offset_delta <= max_offset - offset
                        and 0 <= record_count <= last_offset_delta + 1
                    ):
                        return at
                elif min_offset <= offset <= max_offset and _is_message(data, at, size, magic):
                    return at
        at += 1
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(i64)
def _min_size(magic: cython.int):
    return 61 if magic == 2 else 34 if magic == 1 else 26


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(cython.bint)
def _is_message(data: Octets, at: Size, size: i64, magic: cython.int):
    """Whether key and value of a message of magic 0 or 1 fill it exactly."""
    left: i64 = size - _min_size(magic)
    key_length: i64 = int32_at(data, at + (26 if magic == 1 else 18))
    value_length: i64
    if key_length < -1 or key_length > left:
        return False
    if key_length > 0:
        left -= key_length
    value_length = int32_at(data, at + size - left - 4)
    return value_length == left or (value_length == -1 and left == 0)


@cython.cfunc
@cython.locals(expected=i64, found=i64)
def _is_intact(view, data: Octets, at: Size, size: i64, magic: cython.int):
    """Whether the CRC of a whole batch is right. A call into another module, once per batch: not worth C of our own."""
    if magic == 2:
        expected = int32_at(data, at + 17)
        found = crc32c(view[at + 21 : at + size])
    else:
        expected = int32_at(data, at + 12)
        found = crc32(view[at + 16 : at + size])
    return found == (expected if expected >= 0 else expected + 2**32)


# Index slots


def check_entries(buffer: cython.const[cython.uchar][::1], entries: Size, kind: cython.int) -> int:
    """The first slot that breaks the order of its index, or -1. `kind` is the size of an entry.

    8    offset index   i32 relative offset, rises · i32 position, does not fall
    12   time index     i64 timestamp, rises · i32 relative offset, does not fall

    No field may be negative.
    """
    if kind not in (8, 12):
        raise InvalidArgument(f"index entries of {kind} bytes; 8 (offset index) and 12 (time index) are known")
    if not 0 <= entries <= len(buffer) // kind:
        raise InvalidArgument(f"{entries} entries of {kind} bytes do not fit a buffer of {len(buffer)}")
    data: Octets = cython.address(buffer[0]) if cython.compiled else buffer
    slot: Size
    with cython.nogil:
        slot = _first_out_of_order(data, entries, kind)
    return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(Size)
@cython.locals(slot=Size, rising=i64, steady=i64, last_rising=i64, last_steady=i64)
def _first_out_of_order(data: Octets, entries: Size, kind: cython.int):
    last_rising = -1
    last_steady = 0
    for slot in range(entries):
        rising = int32_at(data, slot * kind) if kind == 8 else int64_at(data, slot * kind)
        steady = int32_at(data, slot * kind + kind - 4)
        if rising <= last_rising or steady < last_steady:
            return slot
        last_rising = rising
        last_steady = steady
    return -1
