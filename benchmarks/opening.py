"""Opening logs: recovery after a crash, ten thousand clean segments, and the memory an open log holds."""

from __future__ import annotations

import os
import resource
import time

from common import batch_of, scratch, table

import milepost

GIB = 1 << 30


def recovery_speed(path: str) -> float:
    """GB/s of an unclean start over one segment of 1 GiB."""
    batch = batch_of(62, 1024)
    log = milepost.open_log(f"{path}/bench-0", mode="a")
    for _ in range(GIB // len(batch) - 1):
        log.append_as_leader(batch)
    log.close()
    os.remove(f"{path}/.kafka_cleanshutdown")
    os.remove(f"{path}/recovery-point-offset-checkpoint")
    size = os.path.getsize(f"{path}/bench-0/00000000000000000000.log")
    start = time.perf_counter()
    with milepost.open_log(f"{path}/bench-0", mode="a"):
        seconds = time.perf_counter() - start
    return size / seconds / 1e9


def many_segments(path: str, count: int) -> tuple[float, int]:
    """Seconds to open a clean log of `count` segments, and how much the process grew, in KiB."""
    batch = batch_of(1, 100)
    config = {"segment.bytes": len(batch), "segment.index.bytes": 1024, "index.interval.bytes": 0}
    with milepost.open_log(f"{path}/many-0", mode="a", config=config) as log:
        for _ in range(count):
            log.append_as_leader(batch)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    log = milepost.open_log(f"{path}/many-0", mode="a", config=config)
    seconds = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(log.segments) == count
    log.close()
    return seconds, grown


def main() -> None:
    with scratch() as path:
        seconds, grown = many_segments(path, 10_000)
    with scratch() as path:
        speed = recovery_speed(path)
    table(
        "opening a log",
        [
            ("unclean start, 64 KB batches", f"{speed:.2f} GB/s", ">= 1 GB/s"),
            ("10,000 clean segments", f"{seconds:.2f} s, {grown / 10_000:.1f} KiB a segment", "< 2 s"),
        ],
    )


if __name__ == "__main__":
    main()
