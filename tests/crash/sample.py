"""Batches as clients send them, and the log that the sweeps damage: 64 batches in three segments with everything that a log can hold.

Small on purpose: a sweep visits every byte.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.config.topic import LogConfig
from milepost.log.directory.data_directory import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from tests.crash.history import History, Level, as_stored
from tests.crash.memory_disk import MemoryDisk
from tests.crash.recorder import RecordingDisk

DATA = "/data"
PARTITION = "/data/t-0"
NOW = 1_700_000_000_000
SETTINGS: Mapping[str, object] = {
    "segment.bytes": 2400,
    "segment.index.bytes": 480,
    "index.interval.bytes": 250,
    "file.delete.delay.ms": 0,
    "segment.ms": 1 << 40,
}


def batch(
    number: int,
    *,
    records: int = 1,
    codec: Codec = Codec.NONE,
    producer: int = -1,
    epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    key: bytes | None = None,
    size: int = 12,
) -> bytes:
    """A client's batch. Its timestamps wander: each seventh batch is older than the one before it."""
    base = NOW + number * 10 - (35 if number % 7 == 3 else 0)
    made = [
        Record(
            index,
            base + index * (3 if number % 5 else -3),
            key or b"k%d" % (number % 9),
            b"%d.%d-" % (number, index) + b"v" * size,
        )
        for index in range(records)
    ]
    return build_batch(
        made,
        codec=codec,
        producer_id=producer,
        producer_epoch=epoch if producer >= 0 else -1,
        base_sequence=sequence,
        is_transactional=transactional,
    )


def marker(number: int, kind: ControlType, producer: int, epoch: int = 0, coordinator_epoch: int = 0) -> bytes:
    return end_transaction_batch(
        EndTransactionMarker(kind, coordinator_epoch),
        offset=0,
        timestamp=NOW + number * 10,
        producer_id=producer,
        producer_epoch=epoch,
    )


class Writer:
    """A log on a recording disk, and the history of what was asked of it."""

    def __init__(
        self, settings: Mapping[str, object] | None = None, disk: RecordingDisk | None = None, history: History | None = None
    ):
        self.disk = disk or RecordingDisk(directories=[DATA])
        self.clock = ManualClock(NOW)
        self.config = LogConfig.parse({**SETTINGS, **(settings or {})})
        self.history = history or History()
        self.leader_epoch = 0
        self.sequences: dict[tuple[int, int], int] = {}
        self.number = 0
        self.log: Log = self.open()

    def open(self) -> Log:
        self.log = open_log(PARTITION, "a", self.config, clock=self.clock, disk=self.disk)
        return self.log

    def note(self, kind: str, what: object = None) -> None:
        self.history.note(len(self.disk.trace), kind, what)

    # Appending.

    def put(self, sent: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        stored = as_stored(sent, self.log.end_offset, self.leader_epoch)
        self.note("append", [stored])
        self.log.append_as_leader(sent, leader_epoch=self.leader_epoch, origin=origin)
        self.note("appended", [stored])
        self.number += 1

    def plain(self, records: int = 1, codec: Codec = Codec.NONE, **fields: object) -> None:
        self.put(batch(self.number, records=records, codec=codec, **fields))

    def idempotent(
        self, producer: int, records: int = 1, codec: Codec = Codec.NONE, epoch: int = 0, transactional: bool = False
    ) -> None:
        sequence = self.sequences.get((producer, epoch), 0)
        self.sequences[producer, epoch] = sequence + records
        self.put(
            batch(
                self.number,
                records=records,
                codec=codec,
                producer=producer,
                epoch=epoch,
                sequence=sequence,
                transactional=transactional,
            )
        )

    def end(self, producer: int, kind: ControlType, epoch: int = 0) -> None:
        self.put(marker(self.number, kind, producer, epoch), AppendOrigin.COORDINATOR)

    def replicate(self, batches: list[bytes]) -> None:
        """As a follower: batches come with their offsets."""
        stored, offset = [], self.log.end_offset
        for sent in batches:
            stored.append(as_stored(sent, offset, self.leader_epoch))
            offset += int.from_bytes(sent[23:27], "big") + 1
        self.note("append", stored)
        self.log.append_as_follower(b"".join(stored))
        self.note("appended", stored)
        self.number += len(batches)

    # Everything else.

    def flush(self) -> None:
        end = self.log.end_offset
        self.log.flush()
        self.note("flushed", end)

    def checkpoint(self) -> None:
        """What a manager does now and then: all that is known about offsets, into the files of the data directory."""
        directory = self.log.owner.directory
        partition = self.log.partition
        directory.write(RECOVERY_POINTS, {partition: self.log.recovery_point})
        starts = {partition: self.log.start_offset} if self.log.start_offset > self.log.segments.first.base_offset else {}
        directory.write(LOG_STARTS, starts)
        directory.write(HIGH_WATERMARKS, {partition: self.log.high_watermark})

    def truncate(self, offset: int) -> None:
        self.note("truncate", offset)
        self.log.truncate_to(offset)
        self.note("truncated", offset)
        self.sequences = {}
        for kept in self.history.at(len(self.disk.trace), Level.PROCESS).must:
            if kept.producer_id >= 0 and not kept.marker:
                self.sequences[kept.producer_id, kept.producer_epoch] = kept.last_sequence + 1

    def close(self) -> None:
        end = self.log.end_offset
        self.log.close()
        self.note("flushed", end)


CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


def write_everything(writer: Writer, batches: int = 64) -> None:
    """Two idempotent producers, a transaction that commits, two that abort (one over a roll), one left open, three leader epochs."""
    aborts = {10: 7, 36: 8, 58: 7}
    for number in range(batches):
        writer.leader_epoch = number * 3 // batches
        codec = CODECS[number % 5]
        if number in aborts:
            writer.end(aborts[number], ControlType.ABORT)
        elif number == 44:
            writer.end(9, ControlType.COMMIT)
        elif number in (5, 8, 52):
            writer.idempotent(7, 1 + number % 2, codec, transactional=True)
        elif number in (17, 22, 30):
            writer.idempotent(8, 1, codec, transactional=True)
        elif number in (25, 40):
            writer.idempotent(9, 2, codec, transactional=True)
        elif number in (55, 60):
            writer.idempotent(10, 1, codec, transactional=True)
        elif number % 3 == 0:
            writer.idempotent(1, 1 + number % 3, codec)
        elif number % 3 == 1:
            writer.idempotent(2, 1 + number % 2, codec)
        else:
            writer.plain(1 + number % 3, codec)


@functools.cache
def everything() -> Writer:
    """The sample, as a process left it that died: 64 batches, nothing closed."""
    writer = Writer()
    write_everything(writer)
    writer.disk.die()
    return writer


def small_state(writer: Writer) -> dict[str, bytes]:
    """The files as they are, without the lock of the process that is gone."""
    return {path: data for path, data in writer.disk.state().items() if not path.endswith("/.lock")}


__all__ = [
    "DATA",
    "NOW",
    "PARTITION",
    "SETTINGS",
    "MemoryDisk",
    "Writer",
    "batch",
    "everything",
    "marker",
    "small_state",
    "write_everything",
]
