# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The partitions of many keys at once: `partitioner.partition_for`, column by column.

Cython in pure-Python mode, like `record.kernel`: it runs as it stands, and both twins give the same partitions.
"""

from __future__ import annotations

from array import array

from milepost.errors import InvalidArgument
from milepost.record.partitioner import murmur2

try:
    import cython
except ImportError:
    from milepost.codec import no_cython as cython

if not cython.compiled:
    from milepost.codec import no_cython as cython

u32 = cython.typedef(cython.uint)
Size = cython.typedef(cython.Py_ssize_t)
Octets = cython.typedef(cython.pointer[cython.const[cython.uchar]])

SEED = cython.declare(cython.uint, 0x9747B28C)
M = cython.declare(cython.uint, 0x5BD1E995)
POSITIVE = cython.declare(cython.uint, 0x7FFFFFFF)
NO_KEY = -1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
@cython.returns(u32)
@cython.locals(h=u32, k=u32, at=Size, end=Size, rest=Size)
def _hash(data: Octets, start: Size, size: Size):
    h = SEED ^ cython.cast(u32, size)
    at = start
    end = start + (size & ~3)
    while at < end:
        k = (
            cython.cast(u32, data[at])
            | (cython.cast(u32, data[at + 1]) << 8)
            | (cython.cast(u32, data[at + 2]) << 16)
            | (cython.cast(u32, data[at + 3]) << 24)
        )
        k = k * M
        k = (k ^ (k >> 24)) * M
        h = (h * M) ^ k
        at += 4
    rest = size & 3
    if rest:
        k = cython.cast(u32, data[at])
        if rest > 1:
            k = k | (cython.cast(u32, data[at + 1]) << 8)
        if rest > 2:
            k = k | (cython.cast(u32, data[at + 2]) << 16)
        h = (h ^ k) * M
    h = (h ^ (h >> 13)) * M
    return h ^ (h >> 15)


@cython.locals(index=Size, count=Size, end=Size, size=cython.longlong, start=cython.longlong, many=u32, wrong=Size)
def partitions_of(
    starts: cython.const[cython.int][::1],
    lengths: cython.const[cython.int][::1],
    data: cython.const[cython.uchar][::1],
    partitions: int,
):
    """The partition of each key as an array of 32 bits; -1 where the length is -1, for a record without a key."""
    if not 0 < partitions < 2**31:
        raise InvalidArgument(f"a topic has at least one partition, not {partitions}")
    count = len(starts)
    if len(lengths) != count:
        raise InvalidArgument(f"{count} keys begin and {len(lengths)} have a length")
    found = array("i", (0,)) * count
    end = len(data)
    many = partitions
    wrong = -1
    if cython.compiled:
        result: cython.int[::1] = found
        octets: Octets = cython.address(data[0]) if end else cython.cast(Octets, 0)
        with cython.nogil:
            for index in range(count):
                start = starts[index]
                size = lengths[index]
                if size < 0:
                    result[index] = -1
                elif start < 0 or start + size > end:
                    wrong = index
                    break
                else:
                    result[index] = cython.cast(cython.int, (_hash(octets, start, size) & POSITIVE) % many)
    else:
        for index in range(count):
            start, size = starts[index], lengths[index]
            if size < 0:
                found[index] = NO_KEY
            elif start < 0 or start + size > end:
                wrong = index
                break
            else:
                found[index] = (murmur2(bytes(data[start : start + size])) & 0x7FFFFFFF) % partitions
    if wrong >= 0:
        raise InvalidArgument(f"key {wrong} lies at {starts[wrong]} with {lengths[wrong]} bytes, and there are {end}")
    return found
