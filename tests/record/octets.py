"""Batches and records as bytes in hexadecimal."""

from __future__ import annotations

TIME = 1_700_000_000_000
LONG_MAX = 9223372036854775807

# (k1, v1) and (null key, "hello", header h=x, 5 ms later): base offset 100, leader epoch 7.
WORKED = bytes.fromhex(
    "00000000000000640000004c000000070232deae190000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff00000002"
    "14000000046b31047631001e000a02010a68656c6c6f0202680278"
)


def octets(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))
