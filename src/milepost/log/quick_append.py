# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The fast path of an append: what `append_as_leader`, the general path, does for nearly every produce, step by step, spelled out; and
`append_as_follower` for most of what a follower that keeps up is sent.

It takes one whole batch of a client that goes as it is to the end of the active segment of a topic without unusual settings, from a
producer that counts on from its last batch or does not count, in no transaction or in one that is open in this log. Every check of the
general path is made; whatever that would refuse, or do differently, is left to it: nothing has changed then.

Compiled (Cython in pure-Python mode) it takes a third of the time of its uncompiled twin. Uncompiled it would gain nothing and is not
used; the same tests run on both.

A write that fails is undone, and left to the general path too, which tries it once more and reports it.
"""

from __future__ import annotations

from milepost.codec.compression import decompress
from milepost.codec.crc32c import crc32c
from milepost.errors import MilepostError
from milepost.log.append_info import AppendInfo
from milepost.log.examination import QUICK_BYTES
from milepost.log.producer_state.producer_entry import BatchMetadata
from milepost.record.kernel import scan_records
from milepost.segment.time_index import TimestampOffset

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if cython.compiled:
    from cython.cimports.milepost.codec.octets import int32_at, int64_at, octets_of
else:
    # Also where Cython is installed: its own stand-ins for C types make plain Python several times slower.
    from milepost.codec import no_cython as cython
    from milepost.codec.octets import int32_at, int64_at, octets_of

i64 = cython.typedef(cython.longlong)
Octets = cython.typedef(cython.pointer[cython.uchar])

IS_COMPILED = cython.compiled
_new = tuple.__new__
"""Of a named tuple: without its own `__new__`, which is written in Python."""
HEADER_SIZE = cython.declare(cython.longlong, 61)
MAX_INT = cython.declare(cython.longlong, 2**31 - 1)
CODEC_MASK = cython.declare(cython.longlong, 7)
LAST_CODEC = cython.declare(cython.longlong, 4)
TRANSACTIONAL_FLAG = cython.declare(cython.longlong, 0x10)


@cython.locals(octets=Octets, size=i64, now_ms=i64, most=i64, largest=i64, smallest=i64, codec=i64)
def append_fast(log, data, leader_epoch: i64, examined=None):
    """Append a batch, and say where; None if it is not taken. Of a receive buffer: a view that can be written to, and is the same
    afterwards.

    `examined`: what was found out about the batch already.
    """
    size = len(data)
    if size <= HEADER_SIZE or not isinstance(data, memoryview) or data.readonly:
        return None
    octets = octets_of(data)
    if int64_at(octets, 0) != 0 or not _takes_fast_path(log, data, octets, size):
        return None
    if examined is not None:
        # Somebody has looked at every record: good as long as the topic has the same settings, and nothing is to be changed in the batch.
        if examined.found is None or examined.validator is not log.validator:
            return None
        batch, found, _ = examined.found
        largest = found
        if batch.buffer is not data or largest != int64_at(octets, 35):
            return None
        return _append_new(log, data, octets, size, leader_epoch)

    # Every record, and their timestamps.
    codec = octets[22] & CODEC_MASK
    try:
        if codec == 0:
            largest, _, smallest, _, sequential = scan_records(
                data, HEADER_SIZE, size, int32_at(octets, 57), int64_at(octets, 27)
            )
        else:
            payload = decompress(codec, data[HEADER_SIZE:], max_size=QUICK_BYTES)
            largest, _, smallest, _, sequential = scan_records(
                payload, 0, len(payload), int32_at(octets, 57), int64_at(octets, 27)
            )
    except MilepostError:
        return None
    if not sequential or largest != int64_at(octets, 35):
        return None
    rules = log.validator
    if not rules.takes_any_time:
        now_ms = log.clock.now_ms()
        most = rules.before_max_ms
        if now_ms - smallest > most:
            return None
        most = rules.after_max_ms
        if largest - now_ms > most:
            return None
    return _append_new(log, data, octets, size, leader_epoch)


@cython.cfunc
@cython.locals(octets=Octets, size=i64, leader_epoch=i64, offset=i64, epoch_sent=i64, last_offset=i64)
def _append_new(log, data, octets, size, leader_epoch):
    """Append a batch that is sound, at the end of the log and in this epoch."""
    offset = log.end_offset
    epoch_sent = int32_at(octets, 12)
    _stamp(octets, offset, leader_epoch)
    try:
        if not _append_stamped(log, data, octets, size):
            return None
        last_offset = offset + int32_at(octets, 23)
        return _new(
            AppendInfo, (offset, last_offset, int64_at(octets, 35), last_offset, -1, log.start_offset, leader_epoch, size, False)
        )
    finally:
        _stamp(octets, 0, epoch_sent)


@cython.locals(octets=Octets, size=i64, end_offset=i64)
def append_fast_as_follower(log, data):
    """Append a batch as its leader wrote it; whether the fast path took it. Of a receive buffer: a view that can be written to."""
    size = len(data)
    if size <= HEADER_SIZE or not isinstance(data, memoryview) or data.readonly:
        return False
    octets = octets_of(data)
    end_offset = log.end_offset
    if int64_at(octets, 0) != end_offset or not _takes_fast_path(log, data, octets, size):
        return False
    return _append_stamped(log, data, octets, size)


@cython.cfunc
@cython.locals(octets=Octets, size=i64, count=i64, most=i64)
@cython.returns(cython.bint)
def _takes_fast_path(log, data, octets, size):
    """Of one whole batch: this size, magic 2, perhaps a codec and in a transaction but no other flags, a last offset that fits the count;
    and of its log."""
    rules = log.validator
    if not rules.takes_fast_path or log.is_failed or log.is_closed or log.is_read_only:
        return False
    if int32_at(octets, 8) + 12 != size or octets[16] != 2 or octets[21] != 0 or octets[22] & ~TRANSACTIONAL_FLAG > LAST_CODEC:
        return False
    count = int32_at(octets, 57)
    most = log.config.max_message_bytes
    if size > most or count <= 0 or int32_at(octets, 23) + 1 != count:
        return False
    return crc32c(data[21:]) == int32_at(octets, 17) & 0xFFFFFFFF


@cython.cfunc
@cython.locals(octets=Octets, size=i64, offset=i64, last_delta=i64, last_offset=i64, largest=i64, most=i64)
@cython.locals(base_sequence=i64, filled=i64, first_timestamp=i64, producer_id=i64)
@cython.returns(cython.bint)
def _append_stamped(log, data, octets, size):
    """Append a batch that has its offset and its epoch."""
    # Its place: the end of the active segment, in an epoch that is known already.
    offset, last_delta, largest = int64_at(octets, 0), int32_at(octets, 23), int64_at(octets, 35)
    last_offset = offset + last_delta
    if log.epochs._latest_epoch != int32_at(octets, 12):
        return False
    segment = log.segments.active
    first = segment._first_timestamp
    if first is None or not segment.is_active or segment.is_index_full:
        return False
    first_timestamp = first
    most = segment.max_segment_ms
    if first_timestamp < 0 or largest - first_timestamp > most or last_offset - segment.base_offset > MAX_INT:
        return False
    file, config = segment.log, log.config
    filled = file.size_in_bytes
    most = config.segment_bytes
    if filled > most - size:
        return False

    # Its producer: known, in this epoch, counting on, and in the transaction that is open here or in none.
    producers = log.producers
    producer_id, base_sequence = int64_at(octets, 43), int32_at(octets, 53)
    entry = None
    if producer_id >= 0:
        entry = producers.last_entry(producer_id)
        if entry is None or base_sequence > MAX_INT - last_delta or producers.is_verifying:
            return False
        if not entry.expects(int16_at(octets, 51), base_sequence, (octets[22] & TRANSACTIONAL_FLAG) != 0):
            return False
    elif octets[22] & TRANSACTIONAL_FLAG:
        return False

    # Bytes, then index entries, then everything that speaks of them.
    try:
        file.append((data,), size)
        most = config.index_interval_bytes
        newest = segment._max or segment.max_so_far
        if largest > newest.timestamp:
            segment._max = newest = _new(TimestampOffset, (largest, last_offset))
        if segment.bytes_since_last_index_entry > most:
            offsets = segment.offset_index
            offsets.write_entry(last_offset - segment.base_offset, filled)
            offsets.last_offset = last_offset
            if newest.timestamp > segment.time_index.last_entry.timestamp:
                segment.time_index.maybe_append(newest.timestamp, newest.offset)
            segment.bytes_since_last_index_entry = 0
        segment.bytes_since_last_index_entry += size
    except OSError:
        if file.size_in_bytes != filled:
            segment.truncate_to(offset)
        return False
    log.end_offset = producers.map_end_offset = last_offset + 1
    if entry is not None:
        entry.batches.append(_new(BatchMetadata, (base_sequence + last_delta, last_offset, last_delta, largest)))
        entry.last_timestamp = largest
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(octets=Octets, at=i64)
@cython.returns(i64)
def int16_at(octets, at):
    return ((octets[at] ^ 0x80) - 0x80) * 256 + octets[at + 1]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(octets=Octets, offset=i64, epoch=i64, index=i64)
@cython.returns(cython.void)
def _stamp(octets, offset, epoch):
    """Base offset and leader epoch, the two fields that the CRC does not cover."""
    for index in range(8):
        octets[7 - index] = offset >> 8 * index & 0xFF
    for index in range(4):
        octets[15 - index] = epoch >> 8 * index & 0xFF
