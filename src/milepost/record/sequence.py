"""Producer sequence numbers: 0 … 2147483647 and then 0 again.

An idempotent producer numbers its records per partition. A batch holds only the first number; the record at
offset delta `d` has number `increment_sequence(base_sequence, d)`. Numbers never become negative: -1 means
"no sequence" (`NO_SEQUENCE`) and takes no part in this arithmetic.
"""

from __future__ import annotations

MAX_SEQUENCE = 2**31 - 1


def increment_sequence(sequence: int, increment: int) -> int:
    if sequence > MAX_SEQUENCE - increment:
        return increment - (MAX_SEQUENCE - sequence) - 1
    return sequence + increment


def decrement_sequence(sequence: int, decrement: int) -> int:
    if sequence < decrement:
        return MAX_SEQUENCE - (decrement - sequence) + 1
    return sequence - decrement
