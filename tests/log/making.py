"""Logs and record sets as these tests need them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from milepost import open_log
from milepost.clock import Clock, ManualClock
from milepost.config import LogConfig
from milepost.files import Disk
from milepost.log.log import Log
from milepost.log.reading import Isolation
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from tests.quick_disk import QuickDisk
from tests.segment.making import filled

NOW = 1_700_000_000_000


def log_in(
    directory: Path, *, clock: Clock | None = None, mode: str = "a", disk: Disk | None = None, seed: int = 0, **config: Any
) -> Log:
    """The log of partition `topic-0` in the data directory; settings by their names in Python."""
    path = str(directory / "topic-0")
    if mode == "a":
        disk = disk or QuickDisk()
    return open_log(path, mode, LogConfig(**config), clock=clock or ManualClock(NOW), disk=disk, rng=random.Random(seed))


def produced(count: int = 1, *, timestamp: int = NOW, size: int | None = None, key: bytes | None = b"k", **fields: Any) -> bytes:
    """A batch as a producer sends it: offsets from 0, no leader epoch. The last record's content makes up the wanted size."""
    records = [Record(place, timestamp, key, b"") for place in range(count)]
    return build_batch(records, **fields) if size is None else filled(records, size, **fields)


def idempotent(sequence: int, count: int = 1, *, producer_id: int = 1, epoch: int = 0, **fields: Any) -> bytes:
    return produced(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def transactional(sequence: int, count: int = 1, *, producer_id: int = 1, epoch: int = 0, **fields: Any) -> bytes:
    return idempotent(sequence, count, producer_id=producer_id, epoch=epoch, is_transactional=True, **fields)


def marker(
    kind: ControlType, *, producer_id: int = 1, epoch: int = 0, coordinator_epoch: int = 0, offset: int = 0, timestamp: int = NOW
) -> bytes:
    return end_transaction_batch(
        EndTransactionMarker(kind, coordinator_epoch),
        offset=offset,
        timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def placed(data: bytes, offset: int, leader_epoch: int = 0) -> bytes:
    """A produced batch with the offset and the epoch that a leader gave it."""
    return offset.to_bytes(8, "big") + data[8:12] + leader_epoch.to_bytes(4, "big") + data[16:]


def offsets(log: Log, isolation: Isolation | str = Isolation.LOG_END) -> list[int]:
    return [record.offset for record in log.records(isolation=isolation)]


def names(log: Log, suffix: str = "") -> list[str]:
    """Files of the partition directory, without their leading zeros."""
    return sorted(path.name.lstrip("0") for path in Path(log.directory).iterdir() if path.name.endswith(suffix))


def snapshots(log: Log) -> list[int]:
    return sorted(int(path.stem) for path in Path(log.directory).glob("*.snapshot"))
