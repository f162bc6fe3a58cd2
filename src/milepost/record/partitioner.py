"""Which partition a key belongs to, as Java's producer decides it: murmur2 of the key, without its sign, modulo the partitions.

    murmur2, 32 bits (all arithmetic modulo 2**32), M = 0x5BD1E995
    start     h = 0x9747B28C ^ length
    per four  k = little-endian 32 bits · M;  k ^= k >> 24;  k *= M;  h = h · M ^ k
    the rest  up to three bytes, little-endian, ^ into h; then h *= M   (only when there is a rest)
    end       h ^= h >> 13;  h *= M;  h ^= h >> 15

A record goes to the same partition from every client that uses this rule, which is what keeps the records of one key in
order. Records without a key have no partition of their own: producers spread them.
"""

from __future__ import annotations

import struct

from milepost.errors import InvalidArgument

SEED = 0x9747B28C
M = 0x5BD1E995
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32-bit number (Java shows it signed)."""
    whole = len(data) & ~3
    h = (SEED ^ len(data)) & MASK
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = (k * M) & MASK
        k = ((k ^ (k >> 24)) * M) & MASK
        h = ((h * M) & MASK) ^ k
    rest = data[whole:]
    if rest:
        h = ((h ^ int.from_bytes(rest, "little")) * M) & MASK
    h = ((h ^ (h >> 13)) * M) & MASK
    return h ^ (h >> 15)


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of a keyed record in a topic of `partitions` partitions."""
    if partitions < 1:
        raise InvalidArgument(f"a topic has at least one partition, not {partitions}")
    return (murmur2(key) & 0x7FFFFFFF) % partitions
