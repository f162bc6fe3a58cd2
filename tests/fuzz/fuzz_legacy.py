"""atheris target: messages of magic 0 and 1 from hostile bytes. Run it: `python -m tests.fuzz.fuzz_legacy -max_total_time=60`.

The first byte of an input chooses. 0: the rest is walked as it is. Otherwise the rest is the run of inner messages of a
wrapper whose magic (bit 0), codec (bits 1 and 2) and timestamp type (bit 3) it names, since random bytes hardly ever make a
compressed stream. Only the errors named in ALLOWED may come out.
"""

from __future__ import annotations

import atheris

from tests.fuzz.coverage_guided import fuzz

with atheris.instrument_imports(include=["milepost"]):
    from milepost.codec.compression import Codec, compress
    from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
    from milepost.record.batches import iter_batches
    from milepost.record.legacy import LegacyBatch

ALLOWED = (CorruptRecord, InvalidRecord, UnsupportedCompressionType)
MAX_DECOMPRESSED = 1 << 20


def wrapped(choice: int, inner: bytes) -> bytes:
    magic, codec, log_append_time = choice & 1, Codec(choice >> 1 & 3), choice & 8
    value = compress(codec, inner, magic=magic)
    content = bytes([magic, codec | log_append_time]) + bytes(8 * magic) + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    return (choice >> 4).to_bytes(8, "big") + (len(content) + 4).to_bytes(4, "big") + bytes(4) + content


def test_one_input(data: bytes) -> None:
    content = wrapped(data[0], data[1:]) if data[:1] and data[0] else data[1:]
    try:
        for batch in iter_batches(content):
            batch.is_valid()
            records = batch.records(MAX_DECOMPRESSED)
            if isinstance(batch, LegacyBatch):
                assert records, "an entry of the log without a record"
                batch.holds_older_messages(MAX_DECOMPRESSED)
    except ALLOWED:
        pass


if __name__ == "__main__":
    fuzz(test_one_input)
