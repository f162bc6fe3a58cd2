"""atheris target: batches of magic 2 from hostile bytes. Run it: `python -m tests.fuzz.fuzz_batch -max_total_time=60`.

The first byte of an input chooses. Even: the rest is walked as it is. Odd: the rest is taken for one batch whose length, magic
and CRC are put right first, because random bytes hardly ever get past a CRC. Then every record is decoded, and what decodes must
survive being written and read again. Only the errors named in ALLOWED may come out.
"""

from __future__ import annotations

import os
from types import FunctionType

# The plain kernel can be instrumented, the compiled one cannot.
os.environ["MILEPOST_PURE"] = "1"

import itertools

import atheris

from tests.fuzz.coverage_guided import fuzz

with atheris.instrument_imports(include=["milepost"]):
    from milepost.codec.crc32c import crc32c
    from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
    from milepost.record import kernel
    from milepost.record.batch import RecordBatch
    from milepost.record.batches import iter_batches
    from milepost.record.builder import rewrite_batch
    from milepost.record.control import control_type, parse_end_transaction

# milepost's own finder brings the kernel's source, past the hook of atheris.
for function in vars(kernel).values():
    if isinstance(function, FunctionType):
        atheris.instrument_func(function)

ALLOWED = (CorruptRecord, InvalidRecord, UnsupportedCompressionType)
MAX_DECOMPRESSED = 1 << 20


def repaired(data: bytes) -> bytes:
    batch = bytearray(data.ljust(61, b"\0"))
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[16] = 2
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


def look_at(batch: RecordBatch) -> None:
    records = batch.records(MAX_DECOMPRESSED)
    assert len(records) == batch.record_count
    offsets = [record.offset for record in records]
    if batch.is_valid() and offsets and batch.base_offset <= offsets[0] and offsets[-1] <= batch.last_offset and rising(offsets):
        rewritten = RecordBatch(rewrite_batch(batch, records, delete_horizon_ms=None))
        rewritten.ensure_valid()
        assert rewritten.records() == records
    if batch.is_control:
        for record in records:
            control_type(record.key)
            parse_end_transaction(record)


def rising(offsets: list[int]) -> bool:
    return all(left < right for left, right in itertools.pairwise(offsets))


def test_one_input(data: bytes) -> None:
    content = repaired(data[1:]) if data[:1] and data[0] & 1 else data[1:]
    try:
        for batch in iter_batches(content):
            batch.is_valid()
            look_at(batch) if isinstance(batch, RecordBatch) else batch.records(MAX_DECOMPRESSED)
    except ALLOWED:
        pass


if __name__ == "__main__":
    fuzz(test_one_input)
