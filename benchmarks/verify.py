"""How fast a log is checked: 1 GB in 64 KB batches, plain and compressed, and small batches; one core."""

from __future__ import annotations

import os
import struct

from common import NOW_MS, batch_of, best, scratch, table

import milepost
from milepost.inspect.verify.verify import verify

TOTAL = 1 << 30
SMALL_TOTAL = 64 << 20


def write_log(path: str, batch: bytes, records: int, total: int) -> None:
    """A partition of one segment: batches with rising offsets, and indexes as a clean stop leaves them."""
    partition = f"{path}/bench-0"
    os.mkdir(partition)
    with open(f"{partition}/{0:020d}.log", "wb") as log:
        for number in range(total // len(batch)):
            log.write(struct.pack(">q", number * records) + batch[8:])
    # Opening it once gives it everything else.
    milepost.open_log(partition, mode="a").close()


def speed(path: str, total: int, **options: bool) -> str:
    report = verify(path, **options)
    assert report.is_clean, report.findings[0]
    seconds = best(lambda: verify(path, **options), rounds=3)
    return f"{total / seconds / 1e9:.2f} GB/s, {report.batches / seconds / 1e3:,.0f} k batches/s"


def compressed(records: int, size: int, codec: milepost.Codec) -> bytes:
    """Half random, half zeros: it compresses to about a half."""
    values = [os.urandom(size // 2) + bytes(size // 2) for _ in range(records)]
    return milepost.build_batch([milepost.Record(at, NOW_MS, None, value) for at, value in enumerate(values)], base_offset=0, codec=codec)


def main() -> None:
    rows = []
    with scratch() as path:
        batch = batch_of(62, 1024)
        write_log(path, batch, 62, TOTAL)
        rows.append(("every record walked, 64 KB batches, 1 KB records", speed(path, TOTAL), ">= 1.0 GB/s"))
        rows.append(("headers and CRC, 64 KB batches", speed(path, TOTAL, headers_only=True), ">= 2.0 GB/s"))
    for name, batch, records in (
        ("every record walked, 64 KB batches, 100 B records", batch_of(560, 100), 560),
        ("every record walked, one record of 100 B a batch", batch_of(1, 100), 1),
        ("every record walked, lz4", compressed(62, 1024, milepost.Codec.LZ4), 62),
        ("every record walked, zstd", compressed(62, 1024, milepost.Codec.ZSTD), 62),
    ):
        with scratch() as path:
            write_log(path, batch, records, SMALL_TOTAL)
            rows.append((name, speed(path, SMALL_TOTAL), ""))
    table("verify", rows)


if __name__ == "__main__":
    main()
