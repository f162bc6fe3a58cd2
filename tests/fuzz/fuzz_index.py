"""atheris target: index files from hostile bytes over a sound log. Run it: `python -m tests.fuzz.fuzz_index -max_total_time=60`.

The first byte of an input says how many of the following go into the offset index; the rest is the time index, but for up to 68
bytes at the end that become the transaction index when the first byte is odd. The log says it was left clean, so nothing is
recovered for other reasons. Whatever the bytes: the log opens, ends where it ends, gives all its records to a reader of the
file, and lookups raise nothing but errors of ours.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from types import FunctionType

# The plain kernel can be instrumented, the compiled one cannot.
os.environ["MILEPOST_PURE"] = "1"

import atheris

from tests.fuzz.coverage_guided import fuzz

with atheris.instrument_imports(include=["milepost.segment", "milepost.log.loading", "milepost.log.reading"]):
    from milepost.clock import ManualClock
    from milepost.errors import MilepostError
    from milepost.files import Overlay, replace_file
    from milepost.log.open import open_log
    from milepost.record import kernel
    from milepost.record.builder import build_batch
    from milepost.record.records import Record

atheris.instrument_func(kernel.check_entries) if isinstance(kernel.check_entries, FunctionType) else None

CONFIG = {"index.interval.bytes": 150, "segment.index.bytes": 1024}
BATCHES, STEM = 12, "00000000000000000000"
DIRECTORY = os.path.join(tempfile.mkdtemp(prefix="fuzz-index-"), "topic-0")
CLOCK = ManualClock(1000)


def write_log() -> None:
    with open_log(DIRECTORY, "a", CONFIG, clock=CLOCK) as log:
        for number in range(BATCHES):
            log.append(build_batch([Record(0, 10 * number, b"k", bytes(20)), Record(1, 10 * number + 5, b"k", bytes(20))]))


def test_one_input(data: bytes) -> None:
    overlay = Overlay()
    first, rest = data[0] if data else 0, data[1:]
    offsets, times = rest[:first], rest[first:]
    if first & 1:
        times, aborted = times[:-68], times[-68:]
        replace_file(overlay, f"{DIRECTORY}/{STEM}.txnindex", aborted)
    replace_file(overlay, f"{DIRECTORY}/{STEM}.index", offsets)
    replace_file(overlay, f"{DIRECTORY}/{STEM}.timeindex", times)
    log = open_log(DIRECTORY, "r", CONFIG, clock=CLOCK, disk=overlay)
    assert log.end_offset == 2 * BATCHES
    assert [batch.base_offset for _, batch in log.segments.first.log.batches()] == list(range(0, 2 * BATCHES, 2))
    for offset in range(2 * BATCHES):
        with contextlib.suppress(MilepostError):
            log.find(offset=offset)
            log.read(offset, isolation="committed")
            log.find(time=5 * offset)
    log.close()


if __name__ == "__main__":
    write_log()
    fuzz(test_one_input)
