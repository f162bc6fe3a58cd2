"""How fast a log takes batches, full validation included, against the bare write of the same bytes."""

from __future__ import annotations

import os
import time

from common import batch_of, scratch, table

import milepost

ONE_RECORD_APPENDS = 20_000
LARGE_TOTAL = 800 << 20


def per_append(batch: bytes, count: int, rounds: int) -> tuple[float, float]:
    """Microseconds of one append, and of one bare pwritev of the same bytes, interleaved; the best round of each."""
    appended, bare = [], []
    with scratch() as path, milepost.open_log(f"{path}/bench-0", mode="a") as log:
        fd = os.open(f"{path}/bare", os.O_RDWR | os.O_CREAT)
        header, rest = bytes(61), memoryview(batch)[61:]
        position = 0
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(count):
                log.append_as_leader(batch)
            appended.append(time.perf_counter() - start)
            start = time.perf_counter()
            for _ in range(count):
                os.pwritev(fd, (header, rest), position)
                position += len(batch)
            bare.append(time.perf_counter() - start)
        os.close(fd)
    return min(appended) / count * 1e6, min(bare) / count * 1e6


def main() -> None:
    one = batch_of(1, 100)
    appended, bare = per_append(one, ONE_RECORD_APPENDS, 8)
    rows = [
        ("one record of 100 B", f"{appended:.2f} us, bare {bare:.2f} us", ""),
        ("beyond the bare write", f"{appended - bare:.2f} us", "<= 6 us"),
    ]
    for records, size in ((62, 1024), (600, 96)):
        batch = batch_of(records, size)
        count = LARGE_TOTAL // len(batch) // 8
        appended, bare = per_append(batch, count, 8)
        rows.append(
            (
                f"64 KB batches, {size} B records",
                f"{len(batch) / appended / 1000:.2f} GB/s ({bare / appended:.2f}x bare)",
                ">= 1.0 GB/s",
            )
        )
    table("append through log.append_as_leader", rows)


if __name__ == "__main__":
    main()
