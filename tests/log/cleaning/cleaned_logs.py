"""Logs to be cleaned, as the tests of retention and cleaning need them: small, compacted, on a clock that stands still."""

from __future__ import annotations

from pathlib import Path

from milepost.clock import ManualClock
from milepost.files import Disk
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaner import Cleaner, CleanerStats
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
NOW = 1_800_000_000_000
DAY = 86_400_000


class QuickDisk(Disk):
    """A disk that syncs nothing: these tests kill no machine, and a test that watches the order of syncs brings its own."""

    def fsync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


def compacted_log(
    directory: Path, config: dict[str, object] | None = None, *, clock: ManualClock | None = None, disk: Disk | None = None
) -> Log:
    settings = {"cleanup.policy": "compact", "file.delete.delay.ms": 60_000, **(config or {})}
    return open_log(str(directory / "kv-0"), "a", settings, clock=clock or ManualClock(NOW), disk=disk or QuickDisk())


def put(log: Log, *pairs: tuple[object, object], timestamp: int = NOW, **batch: object) -> int:
    """Append (key, value) pairs as one batch, readable at once; its first offset. None stays None, the rest becomes bytes."""
    records = [Record(index, timestamp, as_bytes(key), as_bytes(value)) for index, (key, value) in enumerate(pairs)]
    info = log.append_as_leader(build_batch(records, **batch))  # type: ignore[arg-type]
    log.update_high_watermark(log.end_offset)
    return info.first_offset


def as_bytes(content: object) -> bytes | None:
    return None if content is None else str(content).encode()


def transactional(log: Log, producer_id: int, *pairs: tuple[object, object], sequence: int = 0, epoch: int = 0) -> int:
    return put(log, *pairs, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


def put_marker(log: Log, kind: ControlType, producer_id: int, *, epoch: int = 0, timestamp: int = NOW) -> int:
    marker = EndTransactionMarker(kind, 0)
    data = end_transaction_batch(marker, offset=0, timestamp=timestamp, producer_id=producer_id, producer_epoch=epoch)
    info = log.append_as_leader(data, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.end_offset)
    return info.first_offset


def clean(log: Log, checkpoint: int | None = None, *, map_bytes: int = 1 << 20, io_buffer_bytes: int = 262_144) -> CleanerStats:
    """One cleaning of everything that may be cleaned."""
    return Cleaner(OffsetMap(map_bytes), io_buffer_bytes=io_buffer_bytes).clean(measure(log, checkpoint))


def contents(log: Log) -> dict[int, tuple[str | None, str | None]]:
    """Offset -> (key, value) of every data record."""
    found = {}
    for segment in log.segments:
        for _, batch in segment.log.batches():
            batch.ensure_valid()
            for record in batch.records() if not batch.is_control else ():
                found[record.offset] = (as_text(record.key), as_text(record.value))
    return found


def as_text(content: bytes | None) -> str | None:
    return None if content is None else content.decode()


def all_offsets(log: Log) -> list[int]:
    """Of every record, markers included."""
    return [record.offset for segment in log.segments for _, batch in segment.log.batches() for record in batch.records()]


def batch_spans(log: Log) -> list[tuple[int, int, int | None]]:
    """(base offset, last offset, number of records) of every batch."""
    return [
        (batch.base_offset, batch.last_offset, batch.record_count)
        for segment in log.segments
        for _, batch in segment.log.batches()
    ]


def newest_values(records: dict[int, tuple[str | None, str | None]]) -> dict[str | None, str | None]:
    """What a reader of the whole log ends up with; a tombstone removes its key."""
    state = {records[offset][0]: records[offset][1] for offset in sorted(records)}
    return {key: value for key, value in state.items() if value is not None}


def leftovers(log: Log) -> list[str]:
    """Files on their way in or out."""
    names = log.pool.disk.listdir(log.directory)
    return sorted(name for name in names if name.endswith((".cleaned", ".swap", ".deleted")))
