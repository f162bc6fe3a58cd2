"""What a lookup in a full 1 GiB segment costs: index pages touched, bytes walked, microseconds.

The segment has 262,144 offset entries, as `index.interval.bytes` 4096 gives. Its `.log` is written in batches of 4096 bytes,
and every batch but the first has an entry.
"""

from __future__ import annotations

import random

from common import NOW_MS, best, scratch, table

import milepost
from milepost.record.records import Record
from milepost.segment.trace import IndexSearch, LogScan

SEGMENT = 1 << 30
BATCH = 4096


def fill(path: str) -> int:
    config = {"segment.bytes": SEGMENT + BATCH, "index.interval.bytes": BATCH - 1, "segment.ms": 2**62}
    with milepost.open_log(path, mode="a", config=config) as log:
        size, number = 0, 0
        while size < SEGMENT:
            log.append_as_leader(sized_batch(NOW_MS + number))
            size += BATCH
            number += 1
        return log.end_offset


def sized_batch(timestamp: int) -> bytes:
    return milepost.build_batch([Record(0, timestamp, None, bytes(BATCH - 61 - 9))], base_offset=0)


def cost(log: milepost.Log, **question: int) -> tuple[int, int]:
    found = log.find(trace=True, **question)
    assert found is not None
    pages = sum(step.pages for step in found.steps if isinstance(step, IndexSearch))
    walked = sum(step.bytes_skipped for step in found.steps if isinstance(step, LogScan))
    return pages, walked + BATCH


def main() -> None:
    rng = random.Random(1)
    with scratch() as path:
        end = fill(f"{path}/bench-0")
        with milepost.open_log(f"{path}/bench-0", config={"segment.bytes": SEGMENT + BATCH}) as log:
            segment = log.segments.first
            warm = [rng.randrange(end - 600, end) for _ in range(500)]
            cold = [rng.randrange(0, end - 3000) for _ in range(500)]
            rows = [("entries", f"{segment.offset_index.entries:,}", "262,144")]
            for name, offsets, pages in (("warm section", warm, "<= 3 pages"), ("cold", cold, "<= 11 pages")):
                costs = [cost(log, offset=offset) for offset in offsets]
                worst = f"{max(c[0] for c in costs)} pages, {max(c[1] for c in costs):,} bytes of log"
                rows.append((f"offset, {name}", worst, f"{pages}, <= 4096 + one batch"))
                timed = [cost(log, time=NOW_MS + offset) for offset in offsets]
                worst = f"{max(c[0] for c in timed)} pages, {max(c[1] for c in timed):,} bytes of log"
                rows.append((f"time, {name}", worst, f"{pages} in each of both indexes"))
            seconds = best(lambda: [segment.offset_index.lookup(offset) for offset in warm])
            rows.append(("offset -> position, warm", f"{seconds / len(warm) * 1e6:.2f} us", "<= 5 us"))
            seconds = best(lambda: [segment.locate(offset) for offset in warm])
            rows.append(("offset -> batch (index and walk), warm", f"{seconds / len(warm) * 1e6:.2f} us", ""))
    table("lookup in a 1 GiB segment", rows)


if __name__ == "__main__":
    main()
