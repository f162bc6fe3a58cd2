"""Which partition of an internal topic a group or a transactional id belongs to: Java's `String.hashCode`, modulo the partitions.

    h = 0;  for each UTF-16 code unit u:  h = 31 · h + u   (32 bits, signed)
    partition = |h| modulo the partition count, and 0 for the one h that has no absolute value in 32 bits

Not murmur2, which places keyed records: clients and brokers of every language have agreed on this one for ids.
"""

from __future__ import annotations

MASK = 0xFFFFFFFF
SIGN = 0x80000000


def java_hash_code(text: str) -> int:
    """Signed, as Java shows it."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    h = 0
    for unit in units:
        h = (31 * h + unit) & MASK
    return h - (1 << 32) if h & SIGN else h


def partition_of(text: str, partition_count: int) -> int:
    h = java_hash_code(text)
    return 0 if h == -SIGN else abs(h) % partition_count
