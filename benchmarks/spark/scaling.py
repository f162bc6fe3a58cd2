"""What a row costs when there is more of everything: slots, bytes of log, segments.

    python -m benchmarks.spark.scaling [--small 0.5] [--large 5] [--rounds 5] [--segments 10000]

CPU of the JVM and its Python workers per row, all columns, the median of the rounds; each number of slots has a session of its
own. Then what the driver needs to plan a partition of many segments: memory and seconds, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.spark.connector import spark_session
from benchmarks.spark.cost import measure, median
from milepost import Record, build_batch

FIRST_TIME = 1_700_000_000_000
RECORDS = 120
SEGMENT_BYTES = 256 << 20


def write_log(directory: Path, size: int) -> int:
    """A partition of about `size` bytes, 100 B values in batches of 15 kB, with offset indexes; the number of records."""
    directory.mkdir(parents=True)
    value = b'{"page":"/docs/concepts","agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML)"}     '[:100]
    records = [Record(number, FIRST_TIME + number, b"%016d" % number, value) for number in range(RECORDS)]
    batch = bytearray(build_batch(records))
    offset = 0
    while size > 0:
        with (directory / f"{offset:020d}.log").open("wb") as log, (directory / f"{offset:020d}.index").open("wb") as index:
            base, position = offset, 0
            while position < min(SEGMENT_BYTES, size):
                # The checksum does not cover the base offset.
                struct.pack_into(">q", batch, 0, offset)
                log.write(batch)
                if position:
                    index.write(struct.pack(">ii", offset + RECORDS - 1 - base, position))
                position += len(batch)
                offset += RECORDS
        size -= position
    return offset


def read_in_session(path: Path, slots: int, rounds: int) -> dict[str, float]:
    """Run by a process of its own: a JVM has one number of slots for life."""
    spark = spark_session(slots, path.parent)

    def read() -> None:
        spark.read.format("milepost").option("path", str(path)).load().write.format("noop").mode("overwrite").save()

    read()
    read()
    cost = median([measure(read) for _ in range(rounds)])
    spark.stop()
    return {"wall": cost.wall, "cpu": cost.cpu}


def in_process(function: str, *arguments: object) -> dict[str, float]:
    code = (
        "import json, sys; from pathlib import Path; from benchmarks.spark import scaling; "
        f"print(json.dumps(scaling.{function}({', '.join(map(repr_of, arguments))})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def repr_of(value: object) -> str:
    return f"Path({str(value)!r})" if isinstance(value, Path) else repr(value)


def write_segments(directory: Path, segments: int) -> None:
    directory.mkdir(parents=True)
    for number in range(segments):
        batch = build_batch([Record(10 * number + each, FIRST_TIME, b"k", b"v" * 100) for each in range(10)])
        (directory / f"{10 * number:020d}.log").write_bytes(batch)


def plan(path: Path) -> dict[str, float]:
    import resource
    import time

    from milepost.spark.columns import Columns
    from milepost.spark.options import SourceOptions
    from milepost.spark.reader import MilepostReader

    reader = MilepostReader(SourceOptions.parse({"path": str(path)}, streaming=False), Columns.of())
    start = time.perf_counter()
    tasks = len(reader.partitions())
    seconds = time.perf_counter() - start
    return {"mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "seconds": seconds, "tasks": tasks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=float, default=0.5, help="GB")
    parser.add_argument("--large", type=float, default=5, help="GB")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--segments", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as scratch:
        root = Path(scratch)
        print("CPU per row, all columns   (wanted: within 15 %)")
        base = 0.0
        for size, slots in ((given.small, 1), (given.small, 2), (given.large, 2)):
            path = root / f"{size}"
            rows = int((path / "rows").read_text()) if path.exists() else write_log(path / "t-0", int(size * (1 << 30)))
            (path / "rows").write_text(str(rows))
            cost = in_process("read_in_session", path, slots, given.rounds)
            each = cost["cpu"] / rows * 1e6
            base = base or each
            print(
                f"  {size:>5} GB, {slots} slots  {cost['wall']:7.2f} s  {each:.3f} us cpu a row  {each / base:.2f}x", flush=True
            )
        print("planning on the driver   (wanted: memory flat)")
        for segments in (100, given.segments):
            write_segments(root / f"segments-{segments}" / "t-0", segments)
            found = in_process("plan", root / f"segments-{segments}")
            print(
                f"  {segments:>6} segments  {found['mb']:6.0f} MB  {found['seconds']:5.2f} s  {found['tasks']:.0f} tasks",
                flush=True,
            )


if __name__ == "__main__":
    main()
