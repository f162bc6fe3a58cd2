"""The kernel on warm buffers, one core: check, decode, encode records; walk and find batches; then the same in plain Python."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from common import batch_of, best, table

import milepost
from milepost.record import kernel

HEADER_SIZE = 61
COUNTS = {100: 560, 1024: 62}  # records that make a batch of 64 KB


def plain_twin() -> ModuleType:
    source = Path(milepost.__file__).parent / "record" / "kernel.py"
    spec = importlib.util.spec_from_file_location("plain_kernel", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def per_call(work: Callable[[], object], calls: int) -> float:
    """Seconds of one call."""

    def loop() -> None:
        for _ in range(calls):
            work()

    return best(loop) / calls


def record_work(module: ModuleType, value_size: int) -> tuple[int, int, dict[str, Callable[[], object]]]:
    """Number and bytes of the records, and what is done with them."""
    count = COUNTS[value_size]
    batch = batch_of(count, value_size)
    end = len(batch)
    columns = module.decode_records(batch, HEADER_SIZE, end, count, 0, 0)
    return count, end - HEADER_SIZE, {
        "validate": lambda: module.scan_records(batch, HEADER_SIZE, end, count, 0),
        "decode": lambda: module.decode_records(batch, HEADER_SIZE, end, count, 0, 0),
        "encode": lambda: module.encode_records(columns, batch, batch, batch, 0, 0),
    }  # fmt: skip


def record_rows(module: ModuleType, calls: int) -> dict[tuple[str, int], tuple[float, str]]:
    """By work and value size: seconds of one record, and the figures to print."""
    rows = {}
    for value_size in COUNTS:
        count, size, works = record_work(module, value_size)
        for name, work in works.items():
            seconds = per_call(work, calls)
            figures = f"{seconds / count * 1e9:8.1f} ns/record {count / seconds / 1e6:6.2f} M/s {size / seconds / 1e9:6.2f} GB/s"
            rows[name, value_size] = (seconds / count, figures)
    return rows


WANTED = {
    ("validate", 100): "<= 25 ns/record",
    ("validate", 1024): "<= 25 ns/record",
    ("decode", 100): ">= 10 M/s",
    ("decode", 1024): ">= 2 GB/s",
}


def batch_rows() -> list[tuple[str, str, str]]:
    rows = []
    for name, filling in (("random bytes", os.urandom(8 << 20)), ("zeros", bytes(8 << 20))):
        seconds = best(lambda filling=filling: kernel.find_batch(filling, 0, len(filling), 0, 2**62))
        rows.append((f"search for a batch in {name}", f"{len(filling) / seconds / 1e9:.2f} GB/s", ""))
    return rows


def main() -> None:
    one = batch_of(1, 100)
    seconds = per_call(lambda: kernel.scan_records(one, HEADER_SIZE, len(one), 1, 0), 20_000)
    compiled = record_rows(kernel, 200)
    twin = "plain Python" if kernel.__file__.endswith(".py") else "compiled"
    rows = [
        (f"{work}, {size} B values", figures, WANTED.get((work, size), "")) for (work, size), (_, figures) in compiled.items()
    ]
    table(
        f"records, 64 KB batches, {twin}", [*rows, ("validate, one record of 100 B", f"{seconds * 1e9:.0f} ns/call", "<= 500 ns")]
    )
    table(f"batches, {twin}", batch_rows())
    plain = record_rows(plain_twin(), 3)
    ratios = [
        (f"{work}, {size} B values", f"{figures}   {seconds / compiled[work, size][0]:.0f}x", "")
        for (work, size), (seconds, figures) in plain.items()
    ]
    table(f"records, 64 KB batches, plain Python, and how many times the {twin} kernel is faster", ratios)


if __name__ == "__main__":
    main()
