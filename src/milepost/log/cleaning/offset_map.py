# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The offset map of a cleaning: for each key seen in the dirty part of a log, the offset of its newest record.

A key may be long and there may be millions of them, so the map holds only their MD5, and never more memory than it was given:

    bytes  field   a slot is empty when all 24 are zero
    16     hash    MD5 of the key; two keys with one MD5 would be taken for one (128 bits: it does not happen)
    8      offset

`slots` is memory // 24. Open addressing; where attempt i of a lookup looks:

    i < 13    |the four bytes of the hash from byte i on, as a signed number|, modulo the slots
    i >= 13   |the last four bytes + (i - 12)|, modulo the slots: from here on slot by slot

32-bit sums wrap and |-2^31| is 0, as in Java. A table that got all slots at once would cost 128 MiB before the first key, so
it starts small and is made four times as large when it fills; only its last size is the one the formula above describes.

`desired` slots (`log.cleaner.io.buffer.load.factor` of all) is where a build stops: the rest of the log waits for the
next cleaning. `latest_offset` is how far the map knows the log: records behind it are never judged by the map.

Most batches of a compacted topic are small and *plain*: magic 2, not compressed, not transactional, not control.
`put_batches` and `keep_batches` take runs of those without making an object of any; whatever else they meet is for
the caller, who has `put_records` for the records of any batch and `keep_records` for its decoded columns.

This file is Cython in pure-Python mode, like `record/kernel.py`: it runs uncompiled too, and the same tests run on both.
"""

from __future__ import annotations

import hashlib
from array import array

from milepost.codec.crc32c import crc32c
from milepost.errors import InvalidArgument
from milepost.record.kernel import Columns

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy, memset
    from cython.cimports.milepost.codec.octets import checked_varint_at, int32_at, int64_at
else:
    from milepost.codec.octets import checked_varint_at, int32_at, int64_at

i64 = cython.typedef(cython.longlong)
u64 = cython.typedef(cython.ulonglong)
u32 = cython.typedef(cython.uint)
Size = cython.typedef(cython.Py_ssize_t)
Octets = cython.typedef(cython.pointer[cython.const[cython.uchar]])
Table = cython.typedef(cython.pointer[cython.ulonglong])
Longs = cython.typedef(cython.pointer[cython.longlong])
Ints = cython.typedef(cython.pointer[cython.int])
Words = cython.typedef(cython.pointer[cython.uint])

LOW_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)

SLOT_BYTES = 24
FIRST_SLOTS = 1024
GROWTH = 4
FULL_AT = 0.7  # of a table that may still grow: above that, lookups get long
FEW = 8
RELEASE_GIL_ABOVE = 16  # records; for fewer, giving the GIL away and taking it back costs more than it frees

# C variables, since loops that run without the GIL cannot reach Python's.
NOT_PLAIN = cython.declare(cython.int, 0x37)  # attributes: codec, transactional, control
HORIZON = cython.declare(cython.int, 0x40)
NO_ROOM = cython.declare(cython.int, 1)
MALFORMED = cython.declare(cython.int, 2)
NO_ROOM_LEFT, NOT_RECORDS = 1, 2  # the same two, for callers

# MD5 (RFC 1321): 64 constants, floor(2^32 |sin(i)|), and 64 rotations.
MD5_TABLE = array("I", [
    0xD76AA478, 0xE8C7B756, 0x242070DB, 0xC1BDCEEE, 0xF57C0FAF, 0x4787C62A, 0xA8304613, 0xFD469501,
    0x698098D8, 0x8B44F7AF, 0xFFFF5BB1, 0x895CD7BE, 0x6B901122, 0xFD987193, 0xA679438E, 0x49B40821,
    0xF61E2562, 0xC040B340, 0x265E5A51, 0xE9B6C7AA, 0xD62F105D, 0x02441453, 0xD8A1E681, 0xE7D3FBC8,
    0x21E1CDE6, 0xC33707D6, 0xF4D50D87, 0x455A14ED, 0xA9E3E905, 0xFCEFA3F8, 0x676F02D9, 0x8D2A4C8A,
    0xFFFA3942, 0x8771F681, 0x6D9D6122, 0xFDE5380C, 0xA4BEEA44, 0x4BDECFA9, 0xF6BB4B60, 0xBEBFBC70,
    0x289B7EC6, 0xEAA127FA, 0xD4EF3085, 0x04881D05, 0xD9D4D039, 0xE6DB99E5, 0x1FA27CF8, 0xC4AC5665,
    0xF4292244, 0x432AFF97, 0xAB9423A7, 0xFC93A039, 0x655B59C3, 0x8F0CCC92, 0xFFEFF47D, 0x85845DD1,
    0x6FA87E4F, 0xFE2CE6E0, 0xA3014314, 0x4E0811A1, 0xF7537E82, 0xBD3AF235, 0x2AD7D2BB, 0xEB86D391,
    *[7, 12, 17, 22] * 4, *[5, 9, 14, 20] * 4, *[4, 11, 16, 23] * 4, *[6, 10, 15, 21] * 4,
])  # fmt: skip
EMPTY_SLOT = array("Q", (0, 0, 0))


class OffsetMap:
    """Key -> offset of its newest record. `len` is the number of keys."""

    __slots__ = ("_entries", "_room", "_table", "_table_slots", "desired", "latest_offset", "slots")

    def __init__(self, memory: int, load_factor: float = 0.9):
        self.slots = memory // SLOT_BYTES
        self.desired = int(self.slots * load_factor)
        if self.desired <= 1 or self.desired > self.slots:
            raise InvalidArgument(
                f"an offset map of {memory} bytes has {self.slots} slots of {SLOT_BYTES} bytes; filled to {load_factor} it holds "
                f"{self.desired} keys, where at least 2 and at most {self.slots} are needed: give log.cleaner.dedupe.buffer.size more"
            )
        self.clear()

    def clear(self) -> None:
        """Forget everything, and give the memory back."""
        self._entries = 0
        self.latest_offset = -1
        self._take(min(self.slots, FIRST_SLOTS))

    def _take(self, slots: int) -> None:
        self._table_slots = slots
        self._table = EMPTY_SLOT * slots
        self._room = slots if slots == self.slots else int(slots * FULL_AT)

    def __len__(self) -> int:
        return self._entries

    def update_latest_offset(self, offset: int) -> None:
        self.latest_offset = offset

    @cython.locals(high=u64, low=u64, at=Size)
    def put(self, key, offset: int) -> None:
        """Remember a record. Records come in the order of their offsets, so the newest is the last."""
        if self._entries >= self.slots:
            raise InvalidArgument(f"the offset map is full: all {self.slots} slots are in use, at offset {offset}")
        if self._entries >= self._room:
            self._grow()
        octets: cython.const[cython.uchar][::1] = key
        data: Octets = _octets(octets, len(key))
        table: Table = _table(self._table)
        high, low = _hash(data, 0, len(key), _words(MD5_TABLE))
        at = 3 * _slot_of(table, self._table_slots, high, low)
        if table[at] == 0 and table[at + 1] == 0 and table[at + 2] == 0:
            self._entries += 1
        table[at] = high
        table[at + 1] = low
        table[at + 2] = offset
        self.latest_offset = offset

    @cython.locals(high=u64, low=u64, slot=Size)
    def get(self, key) -> int:
        """The offset of the key's newest record, or -1."""
        octets: cython.const[cython.uchar][::1] = key
        data: Octets = _octets(octets, len(key))
        high, low = _hash(data, 0, len(key), _words(MD5_TABLE))
        return _offset_at(_table(self._table), self._table_slots, high, low)

    def put_records(
        self, buffer: cython.const[cython.uchar][::1], start: Size, end: Size, count: i64, base_offset: i64, first_offset: i64
    ):
        """Remember the records of one batch, which lie in `buffer[start:end]`: 0, NO_ROOM_LEFT or NOT_RECORDS.

        With NO_ROOM_LEFT, those before the first that did not fit are in the map, and `latest_offset` is the last one's.
        """
        if not 0 <= start <= end <= len(buffer):
            raise InvalidArgument(f"bytes {start} to {end} of a buffer of {len(buffer)}")
        return _put(self, _octets(buffer, len(buffer)), start, end, count, base_offset, first_offset)

    def put_batches(self, buffer: cython.const[cython.uchar][::1], start: Size, first_offset: i64):
        """Remember the records of the plain batches from position `start` on: (where the next batch is, whether the map is full).

        The run ends at a batch that is not plain, not whole or not valid; or at one that did not find room for all its records.
        """
        end: Size = len(buffer)
        at: Size = start
        size: Size
        status: cython.int
        last_offset: i64
        data: Octets = _octets(buffer, end)
        view = memoryview(buffer)
        while True:
            size = _plain_size(data, at, end)
            if size == 0 or not _is_intact(view, at, size):
                return at, False
            status = _put(self, data, at + 61, at + size, int32_at(data, at + 57), int64_at(data, at), first_offset)
            if status != 0:
                return at, status == NO_ROOM
            last_offset = int64_at(data, at) + int32_at(data, at + 23)
            if last_offset >= first_offset:
                self.latest_offset = last_offset
            at += size

    def keep_records(self, columns, buffer: cython.const[cython.uchar][::1], keep_tombstones: cython.bint):
        """Reduce `columns` to the records that survive: (how many those are, how many had no key, how many kept have no value).

        A record survives if it lies behind `latest_offset`; otherwise if it has a key, is its key's newest, and has a value
        or is a tombstone that is still needed.
        """
        count: Size = len(columns.offsets)
        kept: Size
        keyless: Size
        tombstones: Size
        latest: i64 = self.latest_offset
        slots: Size = self._table_slots
        data: Octets = _octets(buffer, len(buffer))
        table: Table = _table(self._table)
        offsets: Longs = _longs(columns.offsets)
        timestamps: Longs = _longs(columns.timestamps)
        key_start: Ints = _ints(columns.key_start)
        key_length: Ints = _ints(columns.key_length)
        value_start: Ints = _ints(columns.value_start)
        value_length: Ints = _ints(columns.value_length)
        header_start: Ints = _ints(columns.header_start)
        header_end: Ints = _ints(columns.header_end)
        header_count: Ints = _ints(columns.header_count)
        constants: Words = _words(MD5_TABLE)
        if count > RELEASE_GIL_ABOVE:
            with cython.nogil:
                kept, keyless, tombstones = _keep_all(
                    table, slots, latest, keep_tombstones, data, count, constants, offsets, timestamps,
                    key_start, key_length, value_start, value_length, header_start, header_end, header_count,
                )  # fmt: skip
        else:
            kept, keyless, tombstones = _keep_all(
                table, slots, latest, keep_tombstones, data, count, constants, offsets, timestamps,
                key_start, key_length, value_start, value_length, header_start, header_end, header_count,
            )  # fmt: skip
        if kept < count:
            for name in Columns.__slots__:
                del getattr(columns, name)[kept:]
        return kept, keyless, tombstones

    def keep_batches(self, buffer: cython.const[cython.uchar][::1], start: Size, upper_bound: i64, now_ms: i64):
        """Judge the plain batches from position `start` on: (where the next batch is, [kept, ..], records, records without key).

        Kept is (position, size, last offset, largest timestamp, records) of a batch that survives as it is. The run ends as for
        `put_batches`, and at a batch that survives in part, gets a delete horizon, or may have to be kept empty; and at one
        with more than a few records: they would be judged twice if some of them survive and some do not.
        """
        end: Size = len(buffer)
        at: Size = start
        size: Size
        count: Size
        kept: Size
        keyless: Size
        tombstones: Size
        records: Size = 0
        dropped_keyless: Size = 0
        latest: i64 = self.latest_offset
        slots: Size = self._table_slots
        last_offset: i64
        data: Octets = _octets(buffer, end)
        constants: Words = _words(MD5_TABLE)
        table: Table = _table(self._table)
        view = memoryview(buffer)
        survivors = []
        while True:
            size = _plain_size(data, at, end)
            if size == 0 or int32_at(data, at + 57) > FEW or not _is_intact(view, at, size):
                break
            count = int32_at(data, at + 57)
            kept, keyless, tombstones = _judge_batch(table, slots, latest, data, at, size, now_ms, constants)
            last_offset = int64_at(data, at) + int32_at(data, at + 23)
            if kept == 0:
                if int64_at(data, at + 43) >= 0 or last_offset + 1 == upper_bound:
                    break
            elif kept < count or (tombstones > 0 and not data[at + 22] & HORIZON):
                break
            else:
                survivors.append((at, size, last_offset, int64_at(data, at + 35), count))
            records += count
            dropped_keyless += keyless
            at += size
        return at, survivors, records, dropped_keyless

    @cython.locals(slot=Size, at=Size, old_slots=Size, new_slots=Size)
    def _grow(self) -> None:
        old_array = self._table
        old_slots = self._table_slots
        self._take(min(self.slots, self._table_slots * GROWTH))
        new_slots = self._table_slots
        old: Table = _table(old_array)
        new: Table = _table(self._table)
        with cython.nogil:
            for slot in range(old_slots):
                if old[3 * slot] != 0 or old[3 * slot + 1] != 0 or old[3 * slot + 2] != 0:
                    at = 3 * _slot_of(new, new_slots, old[3 * slot], old[3 * slot + 1])
                    new[at] = old[3 * slot]
                    new[at + 1] = old[3 * slot + 1]
                    new[at + 2] = old[3 * slot + 2]


def probe(digest: bytes, attempt: int, slots: int) -> int:
    """The slot where attempt number `attempt` of a lookup looks."""
    return _probe(int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big"), attempt, slots)


def md5(key) -> bytes:
    """The hash the map uses, for tests that compare it with another one's."""
    octets: cython.const[cython.uchar][::1] = key
    high, low = _hash(_octets(octets, len(key)), 0, len(key), _words(MD5_TABLE))
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((Size, Size, Size))
@cython.locals(row=Size, kept=Size, keyless=Size, tombstones=Size, high=u64, low=u64)
def _keep_all(
    table: Table, slots: Size, latest: i64, keep_tombstones: cython.bint, data: Octets, count: Size, constants: Words,
    offsets: Longs, timestamps: Longs, key_start: Ints, key_length: Ints, value_start: Ints, value_length: Ints,
    header_start: Ints, header_end: Ints, header_count: Ints,
):  # fmt: skip
    """Moves the rows that are kept to the front of their columns; how many, how many had no key, how many have no value."""
    kept = keyless = tombstones = 0
    for row in range(count):
        if offsets[row] <= latest:
            if key_length[row] < 0:
                keyless += 1
                continue
            if value_length[row] < 0 and not keep_tombstones:
                continue
            high, low = _hash(data, key_start[row], key_length[row], constants)
            if offsets[row] < _offset_at(table, slots, high, low):
                continue
        if value_length[row] < 0:
            tombstones += 1
        if kept != row:
            offsets[kept] = offsets[row]
            timestamps[kept] = timestamps[row]
            key_start[kept] = key_start[row]
            key_length[kept] = key_length[row]
            value_start[kept] = value_start[row]
            value_length[kept] = value_length[row]
            header_start[kept] = header_start[row]
            header_end[kept] = header_end[row]
            header_count[kept] = header_count[row]
        kept += 1
    return kept, keyless, tombstones


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(i64)
@cython.locals(slot=Size)
def _offset_at(table: Table, slots: Size, high: u64, low: u64):
    slot = _slot_of(table, slots, high, low)
    if slot < 0:
        return -1
    if table[3 * slot] == 0 and table[3 * slot + 1] == 0 and table[3 * slot + 2] == 0:
        return -1
    return table[3 * slot + 2]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(Size)
@cython.locals(attempt=Size, slot=Size, at=Size)
def _slot_of(table: Table, slots: Size, high: u64, low: u64):
    """The slot that holds the hash, or the empty one where it belongs, or -1 in a full table without it."""
    for attempt in range(slots + 12):
        slot = _probe(high, low, attempt, slots)
        at = 3 * slot
        if table[at] == high and table[at + 1] == low:
            return slot
        if table[at] == 0 and table[at + 1] == 0 and table[at + 2] == 0:
            return slot
    return -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(Size)
@cython.locals(number=u64)
def _probe(high: u64, low: u64, attempt: Size, slots: Size):
    if attempt <= 4:
        number = high >> (8 * (4 - attempt))
    elif attempt < 12:
        number = (high << (8 * (attempt - 4))) | (low >> (8 * (12 - attempt)))
    else:
        number = low + (attempt - 12)
    number = number & LOW_32
    if number > 0x7FFFFFFF:
        number = (LOW_32 + 1 - number) & 0x7FFFFFFF
    return number % cython.cast(u64, slots)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((u64, u64))
@cython.locals(high=u64, low=u64)
def _hash(data: Octets, start: Size, size: Size, constants: Words):
    """The MD5 of `data[start:start + size]` as two numbers, the first eight bytes and the last."""
    if cython.compiled:
        return _md5(data + start, size, constants)
    else:
        digest = hashlib.md5(data[start : start + size], usedforsecurity=False).digest()
        return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((u64, u64))
@cython.locals(at=Size, left=Size, bits=u64)
def _md5(data: Octets, size: Size, constants: Words):
    """Compiled only: hashlib costs a Python object and half a microsecond per key."""
    state = cython.declare(u32[4])
    tail = cython.declare(cython.uchar[128])
    state[0] = 0x67452301
    state[1] = 0xEFCDAB89
    state[2] = 0x98BADCFE
    state[3] = 0x10325476
    at = 0
    while size - at >= 64:
        _md5_block(state, data + at, constants)
        at += 64
    left = size - at
    memset(tail, 0, 128)
    memcpy(tail, data + at, left)
    tail[left] = 0x80
    bits = cython.cast(u64, size) * 8
    # The length stands in the last eight bytes of a block; x86 and ARM are little-endian, as MD5 is.
    memcpy(cython.address(tail[56 if left < 56 else 120]), cython.address(bits), 8)
    _md5_block(state, tail, constants)
    if left >= 56:
        _md5_block(state, cython.address(tail[64]), constants)
    return (
        cython.cast(u64, _swapped(state[0])) << 32 | _swapped(state[1]),
        cython.cast(u64, _swapped(state[2])) << 32 | _swapped(state[3]),
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.locals(step=cython.int, a=u32, b=u32, c=u32, d=u32, mixed=u32)
def _md5_block(state: Words, block: Octets, constants: Words) -> cython.void:
    words = cython.declare(u32[16])
    memcpy(words, block, 64)
    a = state[0]
    b = state[1]
    c = state[2]
    d = state[3]
    # Four loops and not one with a choice inside: the compiler unrolls them.
    for step in range(16):
        mixed = ((b & c) | (~b & d)) + a + constants[step] + words[step]
        a, d, c, b = d, c, b, b + _rotated(mixed, constants[64 + step])
    for step in range(16, 32):
        mixed = ((d & b) | (~d & c)) + a + constants[step] + words[(5 * step + 1) & 15]
        a, d, c, b = d, c, b, b + _rotated(mixed, constants[64 + step])
    for step in range(32, 48):
        mixed = (b ^ c ^ d) + a + constants[step] + words[(3 * step + 5) & 15]
        a, d, c, b = d, c, b, b + _rotated(mixed, constants[64 + step])
    for step in range(48, 64):
        mixed = (c ^ (b | ~d)) + a + constants[step] + words[(7 * step) & 15]
        a, d, c, b = d, c, b, b + _rotated(mixed, constants[64 + step])
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(u32)
def _rotated(number: u32, bits: u32):
    return (number << bits) | (number >> (32 - bits))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(u32)
def _swapped(number: u32):
    return (number << 24) | ((number & 0xFF00) << 8) | ((number >> 8) & 0xFF00) | (number >> 24)


# Plain batches, read where they lie.


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(Size)
@cython.locals(size=i64, count=i64)
def _plain_size(data: Octets, at: Size, end: Size):
    """The size of the whole, plain batch at `at`, or 0 when there is none."""
    if end - at < 61:
        return 0
    size = 12 + int32_at(data, at + 8)
    count = int32_at(data, at + 57)
    if size < 61 or size > end - at or data[at + 16] != 2 or data[at + 22] & NOT_PLAIN or count < 0 or count > size:
        return 0
    return size


@cython.cfunc
def _is_intact(view, at: Size, size: Size):
    return crc32c(view[at + 21 : at + size]) == int.from_bytes(view[at + 17 : at + 21], "big")


@cython.cfunc
@cython.returns(cython.int)
@cython.locals(status=cython.int, entries=i64, latest=i64, room=i64, slots=Size)
def _put(offset_map, data: Octets, start: Size, end: Size, count: i64, base_offset: i64, first_offset: i64):
    """Puts the records of one batch, and makes the table larger as they need it."""
    constants: Words = _words(MD5_TABLE)
    table: Table
    while True:
        table = _table(offset_map._table)
        slots = offset_map._table_slots
        entries = offset_map._entries
        latest = offset_map.latest_offset
        room = min(offset_map.desired, offset_map._room)
        if count > RELEASE_GIL_ABOVE:
            with cython.nogil:
                status, entries, latest = _put_section(
                    table, slots, entries, room, latest, data, start, end, count, base_offset, first_offset, constants
                )
        else:
            status, entries, latest = _put_section(
                table, slots, entries, room, latest, data, start, end, count, base_offset, first_offset, constants
            )
        offset_map._entries = entries
        offset_map.latest_offset = latest
        if status != NO_ROOM or entries >= offset_map.desired:
            return status
        offset_map._grow()  # and the records once more: a key put twice is the same key


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((cython.int, i64, i64))
@cython.locals(offset=i64, key=Size, key_length=i64, _=i64, slot=Size, high=u64, low=u64)
def _put_section(
    table: Table, slots: Size, entries: i64, room: i64, latest: i64, data: Octets, record: Size, end: Size, count: i64,
    base_offset: i64, first_offset: i64, constants: Words,
):  # fmt: skip
    """Puts records as far as there is room: the status, the number of entries, the last offset put."""
    while count > 0:
        count -= 1
        offset, key, key_length, _, record = _fields(data, record, end)
        if record < 0:
            return MALFORMED, entries, latest
        offset += base_offset
        if key_length < 0 or offset < first_offset:
            continue
        if entries >= room:
            return NO_ROOM, entries, latest
        high, low = _hash(data, key, key_length, constants)
        slot = 3 * _slot_of(table, slots, high, low)
        if table[slot] == 0 and table[slot + 1] == 0 and table[slot + 2] == 0:
            entries += 1
        table[slot] = high
        table[slot + 1] = low
        table[slot + 2] = offset
        latest = offset
    return 0, entries, latest


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((Size, Size, Size))
@cython.locals(count=i64, record=Size, end=Size, base_offset=i64, offset=i64, key=Size, key_length=i64, value_length=i64)
@cython.locals(kept=Size, keyless=Size, tombstones=Size, high=u64, low=u64, keep_tombstones=cython.bint)
def _judge_batch(table: Table, slots: Size, latest: i64, data: Octets, at: Size, size: Size, now_ms: i64, constants: Words):
    """How many records of one batch survive (-1: it is malformed), how many have no key, how many survivors have no value."""
    kept = keyless = tombstones = 0
    keep_tombstones = not data[at + 22] & HORIZON or now_ms < int64_at(data, at + 27)
    record = at + 61
    end = at + size
    base_offset = int64_at(data, at)
    count = int32_at(data, at + 57)
    while count > 0:
        count -= 1
        offset, key, key_length, value_length, record = _fields(data, record, end)
        if record < 0:
            return -1, 0, 0
        offset += base_offset
        if offset <= latest:
            if key_length < 0:
                keyless += 1
                continue
            if value_length < 0 and not keep_tombstones:
                continue
            high, low = _hash(data, key, key_length, constants)
            if offset < _offset_at(table, slots, high, low):
                continue
        if value_length < 0:
            tombstones += 1
        kept += 1
    return kept, keyless, tombstones


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns((i64, Size, i64, i64, Size))
@cython.locals(record_end=Size, number=i64, offset_delta=i64, key=Size, key_length=i64, value_length=i64)
def _fields(data: Octets, at: Size, end: Size):
    """Offset delta, where the key is, its length, the value's length (below 0: null), where the next record is (-1: malformed).

    The kernel is stricter with numbers; the caller asks it whenever this is in doubt.
    """
    number, at = checked_varint_at(data, at, end)
    if at < 0 or number < 1 or number > end - at:
        return 0, 0, 0, 0, -1
    record_end = at + number
    number, at = checked_varint_at(data, at + 1, record_end)
    if at < 0:
        return 0, 0, 0, 0, -1
    offset_delta, at = checked_varint_at(data, at, record_end)
    if at < 0:
        return 0, 0, 0, 0, -1
    key_length, at = checked_varint_at(data, at, record_end)
    if at < 0 or key_length > record_end - at:
        return 0, 0, 0, 0, -1
    key = at
    if key_length > 0:
        at += key_length
    value_length, at = checked_varint_at(data, at, record_end)
    if at < 0 or value_length > record_end - at:
        return 0, 0, 0, 0, -1
    return offset_delta, key, key_length, value_length, record_end


# The memory of arrays, which the callers keep alive; uncompiled, the arrays themselves.


@cython.cfunc
@cython.returns(Octets)
def _octets(buffer: cython.const[cython.uchar][::1], size: Size):
    if cython.compiled:
        return cython.address(buffer[0]) if size > 0 else cython.NULL
    else:
        return buffer


@cython.cfunc
@cython.returns(Table)
def _table(column):
    return cython.cast(Table, cython.cast(cython.size_t, column.buffer_info()[0])) if cython.compiled else column


@cython.cfunc
@cython.returns(Longs)
def _longs(column):
    return cython.cast(Longs, cython.cast(cython.size_t, column.buffer_info()[0])) if cython.compiled else column


@cython.cfunc
@cython.returns(Ints)
def _ints(column):
    return cython.cast(Ints, cython.cast(cython.size_t, column.buffer_info()[0])) if cython.compiled else column


@cython.cfunc
@cython.returns(Words)
def _words(column):
    return cython.cast(Words, cython.cast(cython.size_t, column.buffer_info()[0])) if cython.compiled else column
