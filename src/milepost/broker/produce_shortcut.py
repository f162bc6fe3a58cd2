# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Produce requests that look like the last one, answered in a bunch, straight from where they were received.

A producer with several requests in flight has many of them in the receive buffer at once, and they differ only in their batches.
`run` goes through them: compares the prefix, appends the batch (`log/quick_append`), copies the last answer with another
correlation id and other offsets. What follows an append (high watermark, waiting fetches, metrics) is done once for the bunch.

The first request that is not like that ends the bunch, and goes the way of all requests: `remembered_produce` first, then the
plain handler. Both are twins of this one, with the same tests. It is used only where it is compiled.

A frame as it lies in the buffer, and an answer:

    size (4) · api key and version (4) · correlation id (4) · prefix · size of the records · records · tail
    size (4) · correlation id (4) · … · base offset (8) · log append time (8), always -1 · log start offset (8) · …
"""

from __future__ import annotations

from milepost.log.quick_append import append_fast

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if not cython.compiled:
    from milepost.codec import no_cython as cython

i64 = cython.typedef(cython.longlong)
Octets = cython.typedef(cython.pointer[cython.uchar])

MOST_IN_A_BUNCH = cython.declare(cython.longlong, 1000)
# Each may hold a megabyte that has to be looked into.
MOST_COMPRESSED = cython.declare(cython.longlong, 10)
ZSTD = cython.declare(cython.int, 4)  # which old versions do not know, and the plain way refuses
NO_ANSWERS = b""


class ProduceShortcut:
    """The requests with one prefix. `answer` is a whole frame; its offsets stand from `numbers_at` on."""

    __slots__ = (
        "_answer",
        "_numbers_at",
        "_others",
        "_partition",
        "_prefix",
        "_replicas",
        "_tail",
        "_version",
        "_with_start",
        "meter",
    )

    def __init__(
        self,
        version: bytes,
        prefix: bytes,
        tail: bytes,
        answer: bytes,
        numbers_at: int,
        with_start: bool,
        partition,
        replicas,
        meter,
        others,
    ) -> None:
        self._version = version
        self._prefix = prefix
        self._tail = tail
        self._answer = bytearray(answer)
        self._numbers_at = numbers_at
        self._with_start = with_start
        self._partition = partition
        self._replicas = replicas
        self._others = others
        self.meter = meter

    def other(self, view, at, end):
        """The shortcut for the frame that ended a bunch, if it is remembered too: a producer sends to several partitions in turn."""
        stop = at + 4 + int.from_bytes(view[at : at + 4], "big")
        remembered = self._others.find(view[at + 4 : stop]) if stop <= end else None
        return None if remembered is None else remembered.shortcut

    def run(self, view, at: i64, end: i64, most: i64):
        """Answer the requests of at most `most` bytes at the start of `view[at:end]`: where the first other one starts, how many there
        were, the answers."""
        partition = self._partition
        if view.readonly or not partition.is_hosted or len(partition.replicas) > 1:
            return at, 0, NO_ANSWERS
        log, leader_epoch = partition.log, partition.leader_epoch
        buffer: cython.uchar[::1] = view
        octets: Octets = cython.address(buffer[0]) if cython.compiled else buffer
        template: cython.uchar[::1] = self._answer
        answer: Octets = cython.address(template[0]) if cython.compiled else template
        version: cython.p_uchar = self._version
        prefix: cython.p_uchar = self._prefix
        tail: cython.p_uchar = self._tail
        prefix_size: i64 = len(self._prefix)
        tail_size: i64 = len(self._tail)
        numbers_at: i64 = self._numbers_at
        count: i64 = 0
        compressed: i64 = 0
        records_size: i64 = 0
        first_end: i64 = log.end_offset
        offset: i64
        size: i64
        frame_end: i64
        start: i64
        stop: i64
        index: i64
        answers = bytearray()
        if self._with_start:
            _put_int64(answer, numbers_at + 16, log.start_offset)
        try:
            while count < MOST_IN_A_BUNCH and compressed < MOST_COMPRESSED and end - at >= 12 + prefix_size + tail_size + 4:
                size = _int32(octets, at)
                frame_end = at + 4 + size
                if size < 8 + prefix_size + tail_size + 4 or size > most or frame_end > end:
                    break
                if not _is_same(octets, at + 4, version, 4) or not _is_same(octets, at + 12, prefix, prefix_size):
                    break
                stop = frame_end - tail_size
                if not _is_same(octets, stop, tail, tail_size):
                    break
                start = _start_of_records(octets, at + 12 + prefix_size, stop, tail_size > 0)
                if start < 0 or stop - start < 61 or octets[start + 22] & 7 == ZSTD:
                    break
                info = append_fast(log, view[start:stop], leader_epoch)
                if info is None:
                    break
                offset = info.first_offset
                for index in range(4):
                    answer[4 + index] = octets[at + 8 + index]
                _put_int64(answer, numbers_at, offset)
                answers += self._answer
                records_size += stop - start
                compressed += (octets[start + 22] & 7) != 0
                count += 1
                at = frame_end
        finally:
            if count:
                log.update_high_watermark(log.end_offset)
                self._replicas.count_appends(partition, count, records_size, log.end_offset - first_end)
        return at, count, answers


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(octets=Octets, at=i64)
@cython.returns(i64)
def _int32(octets, at):
    return ((octets[at] ^ 0x80) - 0x80) * 16777216 + octets[at + 1] * 65536 + octets[at + 2] * 256 + octets[at + 3]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(octets=Octets, at=i64, value=i64, index=i64)
@cython.returns(cython.void)
def _put_int64(octets, at, value):
    for index in range(8):
        octets[at + 7 - index] = value >> 8 * index & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(octets=Octets, at=i64, other=Octets, size=i64, index=i64)
@cython.returns(cython.bint)
def _is_same(octets, at, other, size):
    index = 0
    while index < size and octets[at + index] == other[index]:
        index += 1
    return index == size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.locals(octets=Octets, at=i64, stop=i64, is_flexible=cython.bint, size=i64, shift=i64, octet=i64)
@cython.returns(i64)
def _start_of_records(octets, at, stop, is_flexible):
    """Where the records start that end at `stop`, behind their size at `at`; -1 when that says something else."""
    if not is_flexible:
        size = _int32(octets, at)
        return at + 4 if size == stop - at - 4 else -1
    size = shift = 0
    octet = 0x80
    while octet & 0x80 and shift < 35 and at < stop:
        octet = octets[at]
        size |= (octet & 0x7F) << shift
        shift += 7
        at += 1
    return at if size - 1 == stop - at else -1
