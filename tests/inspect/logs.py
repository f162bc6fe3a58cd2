"""Small partition directories for tests of the inspection tools: written by hand, so that every byte is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from milepost.record.builder import build_batch
from milepost.record.records import Record

TIME = 1_700_000_000_000


def batch(first: int, count: int = 2, **options: object) -> bytes:
    """A batch with offsets from `first` on; keys k<offset>, values v<offset>, one millisecond apart."""
    options = {"partition_leader_epoch": 0, **options}
    records = [Record(offset, TIME + offset, b"k%d" % offset, b"v%d" % offset) for offset in range(first, first + count)]
    return build_batch(records, **options)  # type: ignore[arg-type]


def partition(root: Path, *segments: tuple[int, Sequence[bytes]], name: str = "t-0", clean: bool = True) -> Path:
    """A directory with one `.log` per (base offset, batches), empty offset indexes and closing time entries."""
    directory = root / name
    directory.mkdir(parents=True)
    for base, batches in segments:
        stem = f"{base:020d}"
        (directory / f"{stem}.log").write_bytes(b"".join(batches))
        (directory / f"{stem}.index").write_bytes(b"")
        last = max(base, last_offset(batches[-1])) if batches else base
        entry = (TIME + last).to_bytes(8, "big") + (last - base).to_bytes(4, "big")
        (directory / f"{stem}.timeindex").write_bytes(entry if batches else b"")
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    if clean:
        (root / ".kafka_cleanshutdown").write_bytes(b"")
    return directory


def last_offset(data: bytes) -> int:
    return int.from_bytes(data[:8], "big") + int.from_bytes(data[23:27], "big")


def log_of(directory: Path, base: int = 0) -> Path:
    return directory / f"{base:020d}.log"


def contents(directory: Path) -> dict[str, bytes]:
    """Every file under a directory, by its path inside it."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
