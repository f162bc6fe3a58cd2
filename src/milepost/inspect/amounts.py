"""Amounts for people: bytes in units of 1024 and times in the largest unit that fits, with one decimal."""

from __future__ import annotations

BYTE_UNITS = ("KiB", "MiB", "GiB", "TiB")
TIME_UNITS = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000))


def bytes_text(amount: float) -> str:
    """`956 bytes`, `2.0 MiB`."""
    if amount < 1024:
        rounded = round(amount)
        return "1 byte" if rounded == 1 else f"{rounded} bytes"
    for unit in BYTE_UNITS:
        amount /= 1024
        if amount < 1024 or unit == BYTE_UNITS[-1]:
            return f"{amount:,.1f} {unit}"
    raise AssertionError("the last unit takes everything")


def duration_text(milliseconds: float) -> str:
    """`7.0 days`, `23.9 hours`, `12 ms`."""
    for unit, size in TIME_UNITS:
        if milliseconds >= size:
            return f"{milliseconds / size:,.1f} {unit}"
    return f"{round(milliseconds)} ms"
