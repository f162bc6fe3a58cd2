# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records straight into the memory of Arrow columns: the hot loop behind Spark's rows.

Cython in pure-Python mode, like `record.kernel`, and under the same rules: it runs as it stands, both twins give the same
rows, every read and every write is checked, a byte is read once. Nothing here needs Arrow; it fills memory that somebody else
lays out (`milepost.spark.row_buffers`):

    column         memory
    offset         8 bytes a row
    timestamp      8 bytes a row, microseconds · 1 bit: is there one (-1 is none, and so is one that 64 bits cannot hold)
    bad_timestamp  8 bytes a row, milliseconds · 1 bit: set where the timestamp is one that 64 bits of microseconds cannot hold
    timestamp_type 4 bytes a row
    key, value     4 bytes a row and one more: where the bytes of the row end · 1 bit: not null · the bytes
    headers        4 bytes a row and one more: where the headers of the row end · 1 bit: has any
                   keys and values of all headers, in the layout of key and value; keys are never null

Integers are in the machine's order, bits count from the lowest. A column that is not wanted has no memory.

`fill` takes the plain batches of a stretch, one behind the other; what is not plain (compressed, control, old formats, and
transactional when only committed records are wanted) it stops at, and the caller hands the records of such a batch to `add_records`
or, one by one, to `add`. A batch goes in whole or not at all: when there is no room for its last record, the ones before it are
taken back.

Not promised: the reason for damage. `record.kernel.scan_records` gives that, with the same checks.
"""

from __future__ import annotations

import enum

from milepost.codec.crc32c import crc32c

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if cython.compiled:
    from cython.cimports.milepost.codec.octets import int32_at, int64_at, plus, put_bytes, varint_at
else:
    from milepost.codec import no_cython as cython
    from milepost.codec.octets import int32_at, int64_at, plus, put_bytes, varint_at

i64 = cython.typedef(cython.longlong)
Size = cython.typedef(cython.Py_ssize_t)
Octets = cython.typedef(cython.pointer[cython.const[cython.uchar]])
Bytes = cython.typedef(cython.pointer[cython.uchar])
Longs = cython.typedef(cython.pointer[cython.longlong])
Ints = cython.typedef(cython.pointer[cython.int])

HEADER_SIZE = cython.declare(cython.int, 61)
LOG_APPEND_TIME = cython.declare(cython.int, 0x08)
# (2**63 - 1) // 1000: a later time has no microseconds in 64 bits.
LATEST_TIME = cython.declare(cython.longlong, 9223372036854775)
NO_TIME = cython.declare(cython.longlong, -1)

# What `_write` answers.
_DONE = cython.declare(cython.int, 0)
_NO_ROOM = cython.declare(cython.int, 1)
_DAMAGED = cython.declare(cython.int, 2)
_OUT_OF_ROOM = cython.declare(Size, -2)


class Fill(enum.IntEnum):
    """Why `fill` went no further; the position it gives is that of the batch it did not take."""

    END = 0  # the stretch ends with the last batch
    PARTIAL = 1  # the next batch runs past the end, or its header does
    SPECIAL = 2  # not plain: the caller's turn
    BAD_SIZE = 3  # a size too small for a batch of its magic; a zero-filled tail looks like this
    BAD_MAGIC = 4
    BAD_CRC = 5
    DISORDER = 6  # its offsets do not lie behind those of the batch before it
    DAMAGED = 7  # its CRC is right, its records are not
    FULL = 8  # as many bytes or rows as were asked for, or no room for the next batch
    PAST = 9  # it starts behind the offsets that are wanted


COLUMNS = (
    "offset", "timestamp", "timestamp_valid", "bad_timestamp", "bad_timestamp_valid", "timestamp_type",
    "key_ends", "key_valid", "key_data", "value_ends", "value_valid", "value_data",
    "headers_ends", "headers_valid", "header_key_ends", "header_key_data", "header_value_ends", "header_value_valid", "header_value_data",
)  # fmt: skip


@cython.cclass
class ArrowRows:
    """Memory for rows, and how far it is filled. `room` names memory by column; what is missing is not wanted."""

    _memory: object
    _capacity: Size
    _header_capacity: Size
    _key_room: Size
    _value_room: Size
    _header_key_room: Size
    _header_value_room: Size
    _has_offset: cython.bint
    _has_timestamp: cython.bint
    _has_bad: cython.bint
    _has_type: cython.bint
    _has_key: cython.bint
    _has_value: cython.bint
    _has_headers: cython.bint
    _offset: Longs
    _timestamp: Longs
    _timestamp_valid: Bytes
    _bad: Longs
    _bad_valid: Bytes
    _type: Ints
    _key_ends: Ints
    _key_valid: Bytes
    _key_data: Bytes
    _value_ends: Ints
    _value_valid: Bytes
    _value_data: Bytes
    _headers_ends: Ints
    _headers_valid: Bytes
    _header_key_ends: Ints
    _header_key_data: Bytes
    _header_value_ends: Ints
    _header_value_valid: Bytes
    _header_value_data: Bytes
    _rows: Size
    _headers: Size
    _key_used: Size
    _value_used: Size
    _header_key_used: Size
    _header_value_used: Size
    _next_offset: i64

    def __init__(self, capacity: int, header_capacity: int, room):
        self._capacity = capacity
        self._header_capacity = header_capacity
        self._memory = room
        self._has_offset = "offset" in room
        self._has_timestamp = "timestamp" in room
        self._has_bad = "bad_timestamp" in room
        self._has_type = "timestamp_type" in room
        self._has_key = "key_data" in room
        self._has_value = "value_data" in room
        self._has_headers = "headers_ends" in room
        needed = {
            "offset": 8 * capacity, "timestamp": 8 * capacity, "timestamp_valid": _bits(capacity),
            "bad_timestamp": 8 * capacity, "bad_timestamp_valid": _bits(capacity), "timestamp_type": 4 * capacity,
            "key_ends": 4 * capacity + 4, "key_valid": _bits(capacity), "value_ends": 4 * capacity + 4, "value_valid": _bits(capacity),
            "headers_ends": 4 * capacity + 4, "headers_valid": _bits(capacity), "header_key_ends": 4 * header_capacity + 4,
            "header_value_ends": 4 * header_capacity + 4, "header_value_valid": _bits(header_capacity),
        }  # fmt: skip
        for name, view in room.items():
            assert len(view) >= max(needed.get(name, 1), 1), f"{name}: {len(view)} bytes for {capacity} rows"
        self._key_room = len(room["key_data"]) if self._has_key else 0
        self._value_room = len(room["value_data"]) if self._has_value else 0
        self._header_key_room = len(room["header_key_data"]) if self._has_headers else 0
        self._header_value_room = len(room["header_value_data"]) if self._has_headers else 0
        # Columns that are not there get memory nobody looks at: the loop then needs no second set of pointers.
        spare = memoryview(bytearray(8))
        memory = [room.get(name, spare) for name in COLUMNS]
        self._offset = _longs(memory[0])
        self._timestamp = _longs(memory[1])
        self._timestamp_valid = _bytes(memory[2])
        self._bad = _longs(memory[3])
        self._bad_valid = _bytes(memory[4])
        self._type = _ints(memory[5])
        self._key_ends = _ints(memory[6])
        self._key_valid = _bytes(memory[7])
        self._key_data = _bytes(memory[8])
        self._value_ends = _ints(memory[9])
        self._value_valid = _bytes(memory[10])
        self._value_data = _bytes(memory[11])
        self._headers_ends = _ints(memory[12])
        self._headers_valid = _bytes(memory[13])
        self._header_key_ends = _ints(memory[14])
        self._header_key_data = _bytes(memory[15])
        self._header_value_ends = _ints(memory[16])
        self._header_value_valid = _bytes(memory[17])
        self._header_value_data = _bytes(memory[18])
        self._memory = memory
        self._next_offset = 0
        self.clear()

    def clear(self) -> None:
        """Start again at the first row; what was there is overwritten."""
        self._rows = self._headers = 0
        self._key_used = self._value_used = self._header_key_used = self._header_value_used = 0
        self._key_ends[0] = 0
        self._value_ends[0] = 0
        self._headers_ends[0] = 0
        self._header_key_ends[0] = 0
        self._header_value_ends[0] = 0

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def used(self) -> int:
        """Bytes of keys, values and headers so far."""
        return self._key_used + self._value_used + self._header_key_used + self._header_value_used

    @property
    def sizes(self) -> tuple[int, int, int, int, int, int]:
        """Rows, headers, and bytes of keys, values, header keys and header values."""
        return self._rows, self._headers, self._key_used, self._value_used, self._header_key_used, self._header_value_used

    @property
    def next_offset(self) -> int:
        """Behind the last batch that `fill` passed or took."""
        return self._next_offset

    def expect(self, offset: int) -> None:
        """The lowest offset that the next batch may start with."""
        self._next_offset = offset

    @cython.locals(
        at=Size, size=i64, magic=cython.int, base_offset=i64, last_offset=i64, attributes=cython.int, status=cython.int
    )
    def fill(
        self,
        buffer,
        start: Size,
        end: Size,
        min_offset: i64,
        max_offset: i64,
        special: cython.int,
        max_used: Size,
        max_rows: Size,
    ):
        """Take the plain batches of `buffer[start:end]`: (position, Fill). Only rows with offsets from `min_offset` up to, not
        including, `max_offset` are kept. `special` are the attributes that make a batch not plain."""
        octets: cython.const[cython.uchar][::1] = buffer
        assert 0 <= start <= end <= len(octets)
        data: Octets = cython.address(octets[0]) if cython.compiled else octets
        view = memoryview(buffer)
        at = start
        while at < end:
            if end - at < 17:
                return at, Fill.PARTIAL
            size = 12 + int32_at(data, at + 8)
            magic = data[at + 16]
            if magic > 2:
                return at, Fill.BAD_MAGIC
            if size < (61 if magic == 2 else 34 if magic == 1 else 26):
                return at, Fill.BAD_SIZE
            if size > end - at:
                return at, Fill.PARTIAL
            if magic < 2:
                return at, Fill.SPECIAL
            base_offset = int64_at(data, at)
            last_offset = plus(base_offset, int32_at(data, at + 23))
            if base_offset < self._next_offset or last_offset < base_offset:
                return at, Fill.DISORDER
            if base_offset >= max_offset:
                return at, Fill.PAST
            if last_offset < min_offset:  # the way from an index entry to the first offset wanted
                self._next_offset = last_offset + 1
                at += size
                continue
            attributes = data[at + 22]
            if attributes & special != 0:
                return at, Fill.SPECIAL
            if not _has_its_checksum(data, view, at, size):
                return at, Fill.BAD_CRC
            status = self._write(
                data, at + HEADER_SIZE, at + size, int32_at(data, at + 57), base_offset, int64_at(data, at + 27),
                int64_at(data, at + 35), attributes & LOG_APPEND_TIME, min_offset, max_offset,
            )  # fmt: skip
            if status == _DAMAGED:
                return at, Fill.DAMAGED
            if status == _NO_ROOM:
                return at, Fill.FULL
            self._next_offset = last_offset + 1
            at += size
            if self._rows >= max_rows or self.used >= max_used:
                return at, Fill.FULL
        return at, Fill.END

    def add_records(
        self, buffer: cython.const[cython.uchar][::1], start: Size, end: Size, count: i64, base_offset: i64, base_timestamp: i64,
        append_time: i64, has_append_time: cython.bint, min_offset: i64, max_offset: i64,
    ):  # fmt: skip
        """The records of one v2 batch, decompressed: END when they are in, FULL when there is no room for all of them, or DAMAGED."""
        assert 0 <= start <= end <= len(buffer)
        if count == 0:
            return Fill.END
        if end == start:
            return Fill.DAMAGED
        data: Octets = cython.address(buffer[0]) if cython.compiled else buffer
        status: cython.int = self._write(
            data, start, end, count, base_offset, base_timestamp, append_time, has_append_time, min_offset, max_offset
        )
        return Fill.END if status == _DONE else Fill.FULL if status == _NO_ROOM else Fill.DAMAGED

    @cython.locals(row=Size, header=Size, key_used=Size, value_used=Size)
    def add(self, offset: i64, timestamp: i64, timestamp_type: cython.int, key, value) -> bool:
        """One record without headers; False when there is no room."""
        key_size = 0 if key is None else len(key)
        value_size = 0 if value is None else len(value)
        if (
            self._rows >= self._capacity
            or (self._has_key and key_size > self._key_room - self._key_used)
            or (self._has_value and value_size > self._value_room - self._value_used)
        ):
            return False
        row = self._rows
        self._put_numbers(row, offset, timestamp, timestamp_type)
        if self._has_key:
            _put_object(self._key_data, self._key_used, key)
            self._key_used += key_size
            self._key_ends[row + 1] = self._key_used
            _put_bit(self._key_valid, row, key is not None)
        if self._has_value:
            _put_object(self._value_data, self._value_used, value)
            self._value_used += value_size
            self._value_ends[row + 1] = self._value_used
            _put_bit(self._value_valid, row, value is not None)
        if self._has_headers:
            self._headers_ends[row + 1] = self._headers
            _put_bit(self._headers_valid, row, False)
        self._rows = row + 1
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put_numbers(self, row: Size, offset: i64, timestamp: i64, timestamp_type: cython.int) -> cython.void:
        good: cython.bint = timestamp <= LATEST_TIME and timestamp >= -LATEST_TIME
        if self._has_offset:
            self._offset[row] = offset
        if self._has_timestamp:
            self._timestamp[row] = timestamp * 1000 if good else 0
            _put_bit(self._timestamp_valid, row, good and timestamp != NO_TIME)
        if self._has_bad:
            self._bad[row] = 0 if good else timestamp
            _put_bit(self._bad_valid, row, not good)
        if self._has_type:
            self._type[row] = timestamp_type

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.returns(cython.int)
    @cython.locals(status=cython.int, rows=Size, headers=Size, key=Size, value=Size, header_key=Size, header_value=Size)
    def _write(
        self, data: Octets, start: Size, end: Size, count: i64, base_offset: i64, base_timestamp: i64, append_time: i64,
        has_append_time: cython.bint, min_offset: i64, max_offset: i64,
    ):  # fmt: skip
        """All records of a batch, or none: what follows the rows in memory has no meaning."""
        rows, headers, key, value = self._rows, self._headers, self._key_used, self._value_used
        header_key, header_value = self._header_key_used, self._header_value_used
        status = self._write_records(
            data, start, end, count, base_offset, base_timestamp, append_time, has_append_time, min_offset, max_offset
        )
        if status != _DONE:
            self._rows, self._headers, self._key_used, self._value_used = rows, headers, key, value
            self._header_key_used, self._header_value_used = header_key, header_value
        return status

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    @cython.returns(cython.int)
    @cython.locals(at=Size, record_end=Size, _index=i64, number=i64, timestamp=i64, offset=i64, key_at=Size, key_size=i64)
    @cython.locals(value_at=Size, value_size=i64, timestamp_type=cython.int, keep=cython.bint, first_header=Size)
    def _write_records(
        self, data: Octets, start: Size, end: Size, count: i64, base_offset: i64, base_timestamp: i64, append_time: i64,
        has_append_time: cython.bint, min_offset: i64, max_offset: i64,
    ):  # fmt: skip
        at = start
        timestamp_type = 1 if has_append_time else 0
        if count < 0:
            return _DAMAGED
        for _index in range(count):
            number, at = varint_at(data, at, end, 32)
            if at < 0 or number <= 0 or number > end - at:
                return _DAMAGED
            record_end = at + number
            number, at = varint_at(data, at + 1, record_end, 64)
            if at < 0:
                return _DAMAGED
            timestamp = append_time if has_append_time else plus(base_timestamp, number)
            number, at = varint_at(data, at, record_end, 32)
            if at < 0:
                return _DAMAGED
            offset = plus(base_offset, number)
            keep = min_offset <= offset and offset < max_offset
            if keep and self._rows >= self._capacity:
                return _NO_ROOM

            key_size, key_at = varint_at(data, at, record_end, 32)
            if key_at < 0 or key_size > record_end - key_at:
                return _DAMAGED
            at = key_at + key_size if key_size > 0 else key_at
            value_size, value_at = varint_at(data, at, record_end, 32)
            if value_at < 0 or value_size > record_end - value_at:
                return _DAMAGED
            at = value_at + value_size if value_size > 0 else value_at
            if keep and not self._put_key_and_value(data, key_at, key_size, value_at, value_size):
                return _NO_ROOM

            number, at = varint_at(data, at, record_end, 32)
            if at < 0 or number < 0 or number > record_end - at:
                return _DAMAGED
            first_header = self._headers
            if number > 0:
                at = self._write_headers(data, at, record_end, number, keep and self._has_headers)
            if at != record_end:
                return _NO_ROOM if at == _OUT_OF_ROOM else _DAMAGED
            if keep:
                self._put_numbers(self._rows, offset, timestamp, timestamp_type)
                if self._has_headers:
                    self._headers_ends[self._rows + 1] = self._headers
                    _put_bit(self._headers_valid, self._rows, self._headers > first_header)
                self._rows += 1
        return _DAMAGED if at != end and count > 0 else _DONE

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    @cython.locals(row=Size)
    def _put_key_and_value(self, data: Octets, key_at: Size, key_size: i64, value_at: Size, value_size: i64) -> cython.bint:
        """Whether there was room for them."""
        row = self._rows
        if self._has_key:
            if key_size > self._key_room - self._key_used:
                return False
            self._key_used = put_bytes(self._key_data, self._key_used, data, key_at, key_size)
            self._key_ends[row + 1] = self._key_used
            _put_bit(self._key_valid, row, key_size >= 0)
        if self._has_value:
            if value_size > self._value_room - self._value_used:
                return False
            self._value_used = put_bytes(self._value_data, self._value_used, data, value_at, value_size)
            self._value_ends[row + 1] = self._value_used
            _put_bit(self._value_valid, row, value_size >= 0)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.returns(Size)
    @cython.locals(key_at=Size, key_size=i64, value_at=Size, value_size=i64, header=Size)
    def _write_headers(self, data: Octets, at: Size, end: Size, count: i64, keep: cython.bint):
        """Where they end; -1 when they are damaged, _OUT_OF_ROOM when there is no room for them."""
        while count > 0:
            key_size, key_at = varint_at(data, at, end, 32)
            if key_at < 0 or key_size < 0 or key_size > end - key_at:
                return -1
            value_size, value_at = varint_at(data, key_at + key_size, end, 32)
            if value_at < 0 or value_size > end - value_at:
                return -1
            at = value_at + value_size if value_size > 0 else value_at
            if keep:
                header = self._headers
                if (
                    header >= self._header_capacity
                    or key_size > self._header_key_room - self._header_key_used
                    or value_size > self._header_value_room - self._header_value_used
                ):
                    return _OUT_OF_ROOM
                self._header_key_used = put_bytes(self._header_key_data, self._header_key_used, data, key_at, key_size)
                self._header_key_ends[header + 1] = self._header_key_used
                self._header_value_used = put_bytes(self._header_value_data, self._header_value_used, data, value_at, value_size)
                self._header_value_ends[header + 1] = self._header_value_used
                _put_bit(self._header_value_valid, header, value_size >= 0)
                self._headers = header + 1
            count -= 1
        return at


def _bits(count: int) -> int:
    return (count + 7) // 8


@cython.cfunc
@cython.locals(found=i64, expected=i64)
def _has_its_checksum(data: Octets, view, at: Size, size: i64) -> cython.bint:
    expected = int32_at(data, at + 17)
    found = crc32c(view[at + 21 : at + size])
    return found == (expected if expected >= 0 else expected + 4294967296)


@cython.cfunc
@cython.returns(Bytes)
def _bytes(view):
    """The memory behind a writable view, which the caller keeps; uncompiled, the view itself is written to."""
    if cython.compiled:
        octets: cython.uchar[::1] = view
        return cython.address(octets[0])
    else:
        return view


@cython.cfunc
@cython.returns(Longs)
def _longs(view):
    return cython.cast(Longs, _bytes(view)) if cython.compiled else view[: len(view) // 8 * 8].cast("q")


@cython.cfunc
@cython.returns(Ints)
def _ints(view):
    return cython.cast(Ints, _bytes(view)) if cython.compiled else view[: len(view) // 4 * 4].cast("i")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_bit(bits: Bytes, index: Size, value: cython.bint) -> cython.void:
    mask: cython.int = 1 << (index & 7)
    octet: cython.int = bits[index >> 3]
    bits[index >> 3] = octet | mask if value else octet & (255 - mask)


@cython.cfunc
def _put_object(target: Bytes, at: Size, content):
    if content:
        octets: cython.const[cython.uchar][::1] = content
        data: Octets = cython.address(octets[0]) if cython.compiled else octets
        put_bytes(target, at, data, 0, len(octets))
