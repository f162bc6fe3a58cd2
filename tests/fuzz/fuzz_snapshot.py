"""Fuzz target: a producer snapshot made of any bytes is read whole or refused, and never trusted with memory.

    python -m tests.fuzz.fuzz_snapshot -max_total_time=60          (with atheris installed)

The bytes are tried as they are, and once more with the checksum made right: otherwise nothing behind it is ever reached.
"""

from __future__ import annotations

from milepost.codec.crc32c import crc32c
from milepost.errors import CorruptSnapshot
from milepost.log.producer_state.producers import producer_entry
from milepost.log.producer_state.snapshot import decode_snapshot, encode_snapshot
from tests.fuzz.coverage_guided import fuzz


def with_right_crc(data: bytes) -> bytes:
    return data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]


def one_input(data: bytes) -> bool:
    """Whether the bytes were a snapshot."""
    accepted = False
    for candidate in (data, with_right_crc(data) if len(data) >= 6 else data):
        try:
            entries = decode_snapshot(candidate, "fuzz.snapshot")
        except CorruptSnapshot as refusal:
            assert str(refusal).startswith("fuzz.snapshot: ")
            continue
        accepted = True
        assert len(candidate) == 10 + 46 * len(entries)
        again = encode_snapshot(entries)
        assert decode_snapshot(again, "again") == sorted(entries, key=lambda entry: entry.producer_id)
        for stored in entries:
            live = producer_entry(stored)
            assert live.last_data_offset == max(-1, stored.last_data_offset)
    return accepted


if __name__ == "__main__":
    import atheris

    atheris.instrument_all()
    fuzz(one_input)
