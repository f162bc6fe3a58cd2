"""Logs that milepost writes for real Kafka to read, each with what a consumer must get from it.

A scenario is a function that appends to an open log and notes, beside it, the records a reader will see; what is expected
never comes from reading the log back. `LOGS` lists them by topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import milepost
from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.config import BrokerConfig
from milepost.log.manager import LogManager
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from tests.interop.kafka_client import Received

START = 1700000000000
NOON = int(time.time() * 1000)  # the logs' clock, which stands still
SMALL = {"segment.bytes": "3000", "index.interval.bytes": "256", "segment.ms": "9223372036854775807", "retention.ms": "-1"}


@dataclass
class WrittenLog:
    """An open log and what was put into it: `visible` for a read_uncommitted consumer, `committed` for a read_committed one."""

    log: milepost.Log
    config: dict[str, str]
    visible: list[Received] = field(default_factory=list)
    committed: list[Received] = field(default_factory=list)
    next_offset: int = 0

    def batch(self, records: list[Record], *, aborted: bool = False, stamp: int | None = None, **options: object) -> None:
        self._note(records, aborted, stamp)
        self.log.append(build_batch(records, **options))  # type: ignore[arg-type]

    def records(self, records: list[Record]) -> None:
        self._note(records, aborted=False)
        self.log.append(records)

    def replicated(self, batches: list[list[Record]]) -> None:
        """Several batches in one append, as a follower gets them."""
        data = b""
        for records in batches:
            base = self.next_offset
            self._note(records, aborted=False)
            moved = [Record(base + place, record.timestamp, record.key, record.value) for place, record in enumerate(records)]
            data += build_batch(moved, partition_leader_epoch=0)
        self.log.append_as_follower(data)

    def marker(self, kind: ControlType, producer_id: int, timestamp: int, epoch: int = 0) -> None:
        marker = EndTransactionMarker(kind, coordinator_epoch=0)
        data = end_transaction_batch(marker, offset=0, timestamp=timestamp, producer_id=producer_id, producer_epoch=epoch)
        self.log.append_as_leader(data, origin=AppendOrigin.COORDINATOR)
        self.next_offset += 1

    def reopen(self) -> None:
        self.log.close()
        self.log = open_to_append(Path(self.log.directory), self.config)

    def _note(self, records: list[Record], aborted: bool, stamp: int | None = None) -> None:
        for record in records:
            timestamp = record.timestamp if stamp is None else stamp
            seen = Received(self.next_offset, timestamp, record.key, record.value, record.headers)
            self.visible.append(seen)
            if not aborted:
                self.committed.append(seen)
            self.next_offset += 1


def some(count: int, label: str, start: int = START) -> list[Record]:
    return [Record(n, start + n, f"{label} {n}".encode(), f"{label} value {n} ".encode() + b"." * 40) for n in range(count)]


def every_codec(written: WrittenLog) -> None:
    for codec in Codec:
        for step in range(8):
            written.batch(some(12, f"{codec.name} {step}", START + 100 * written.next_offset), codec=codec)


def every_shape_of_record(written: WrittenLog) -> None:
    headers = (("a", b"1"), ("a", b"2"), ("", b"no name"), ("none", None), ("empty", b""), ("ключ", b"\x00\xff"))
    shapes = [
        Record(0, START, None, None),
        Record(1, START, b"", b""),
        Record(2, START, None, b"no key"),
        Record(3, START, b"no value", None),
        Record(4, START, "größe".encode(), "值 🚏".encode()),
        Record(5, START, bytes(range(256)), bytes(range(255, -1, -1))),
        Record(6, START, b"headers", b"six", headers),
        Record(7, START, b"large", b"x" * 2000),
    ]
    written.records(shapes)
    for codec in (Codec.LZ4, Codec.ZSTD):
        written.batch(shapes, codec=codec)


def odd_times(written: WrittenLog) -> None:
    for step, times in enumerate(
        [(5000, 4000, 3000), (9000, 9000, 9000), (1000, 20000, 2000), (8000, 8001, 30000), (30000, 100, 29999)]
    ):
        for repeat in range(4):
            label = f"{step} {repeat} "
            written.batch(
                [Record(n, START + shift + 40000 * repeat, b"k", (label + "." * 60).encode()) for n, shift in enumerate(times)],
                codec=Codec.GZIP if repeat == 3 else Codec.NONE,
            )


def idempotent_producers(written: WrittenLog) -> None:
    sequences = {7: 0, 8: 2**31 - 4}
    for step in range(16):
        for producer_id in sequences:
            records = some(3, f"producer {producer_id} step {step}", START + step)
            written.batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequences[producer_id])
            sequences[producer_id] = (sequences[producer_id] + 3) % 2**31
    again = build_batch(some(3, "producer 7 step 15", START + 15), producer_id=7, producer_epoch=0, base_sequence=45)
    written.log.append(again)  # a duplicate: nothing is written


def finished_transactions(written: WrittenLog) -> None:
    for step in range(12):
        aborted = {100: step % 3 == 0, 200: step % 2 == 0}
        for part in range(2):
            for producer_id in (100, 200):
                written.batch(
                    some(3, f"tid {producer_id} step {step}.{part}", START + 10 * step),
                    aborted=aborted[producer_id],
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=3 * (2 * step + part),
                    is_transactional=True,
                )
        written.batch(some(1, f"plain {step}", START + 10 * step))
        for producer_id in (200, 100):
            kind = ControlType.ABORT if aborted[producer_id] else ControlType.COMMIT
            written.marker(kind, producer_id, START + 10 * step + 5)


def open_transaction(written: WrittenLog) -> None:
    # Today: a producer that was last seen more than a day ago is forgotten when Kafka loads our snapshot.
    written.batch(some(5, "before", NOON))
    written.batch(some(3, "in it", NOON), aborted=True, producer_id=300, producer_epoch=4, base_sequence=0, is_transactional=True)
    written.batch(some(5, "behind the last stable offset", NOON), aborted=True)


def reopened(written: WrittenLog) -> None:
    written.batch(some(4, "before", START))
    written.reopen()
    written.batch(some(4, "after", START + 100))
    written.log.roll()
    written.reopen()
    written.batch(some(4, "in a new segment", START + 200), codec=Codec.GZIP)


def stamped_by_the_log(written: WrittenLog) -> None:
    for step in range(12):
        written.batch(some(3, f"{step}", START), stamp=NOON, codec=Codec.LZ4 if step % 3 == 0 else Codec.NONE)


def many_batches_at_once(written: WrittenLog) -> None:
    for step in range(10):
        written.replicated([some(2, f"{step}.{part}", START + 1000 * step + 10 * part) for part in range(6)])


def single_batches(written: WrittenLog) -> None:
    for step in range(60):
        written.batch(some(1 + step % 4, f"{step}", START + 10 * step), codec=Codec.SNAPPY if step % 5 == 0 else Codec.NONE)


def keys_again_and_again(written: WrittenLog) -> None:
    for step in range(40):
        records = [
            Record(n, START + 10 * step + n, f"key {(step + 3 * n) % 17}".encode(), None if step % 9 == 8 else b"." * 50)
            for n in range(4)
        ]
        written.batch(records, codec=Codec.ZSTD if step % 4 == 0 else Codec.NONE)
    written.log.roll()


@dataclass(frozen=True)
class Scenario:
    write: Callable[[WrittenLog], None]
    config: dict[str, str]


LOGS = {
    "codecs": Scenario(every_codec, SMALL),
    "shapes": Scenario(every_shape_of_record, SMALL),
    "times": Scenario(odd_times, SMALL | {"segment.bytes": "1500"}),
    "idempotent": Scenario(idempotent_producers, SMALL),
    "finished": Scenario(finished_transactions, SMALL),
    "open": Scenario(open_transaction, SMALL),
    "reopened": Scenario(reopened, SMALL),
    "stamped": Scenario(stamped_by_the_log, SMALL | {"message.timestamp.type": "LogAppendTime"}),
    "replicated": Scenario(many_batches_at_once, SMALL),
    "per-append": Scenario(single_batches, SMALL | {"index.profile": "per-append"}),
    "one-segment": Scenario(single_batches, {"index.interval.bytes": "0", "retention.ms": "-1"}),
    "recompressed": Scenario(single_batches, SMALL | {"compression.type": "zstd"}),
}


COMPACTED = Scenario(keys_again_and_again, SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})


def write_all(data_dir: Path) -> dict[str, WrittenLog]:
    """Every log of `LOGS` under `data_dir`, closed, and `compacted`, which the cleaner went through; by topic."""
    written = {topic: write(data_dir / f"{topic}-0", scenario) for topic, scenario in LOGS.items()}
    return written | {"compacted": write_and_clean(data_dir)}


def write_and_clean(data_dir: Path) -> WrittenLog:
    """`COMPACTED`, cleaned in a directory of its own and then moved to `data_dir`: the last record of every key is left."""
    apart = data_dir.with_name("cleaned")
    written = write(apart / "compacted-0", COMPACTED)
    manager = LogManager(BrokerConfig.parse({"log.dirs": str(apart)}), {"compacted": COMPACTED.config}, clock=ManualClock(NOON))
    manager.startup()
    assert manager.clean() is not None
    manager.shutdown()
    (apart / "compacted-0").rename(data_dir / "compacted-0")
    newest = {seen.key: seen for seen in written.visible}
    written.visible = written.committed = sorted(newest.values(), key=lambda seen: seen.offset)
    return written


def write(directory: Path, scenario: Scenario) -> WrittenLog:
    written = WrittenLog(open_to_append(directory, scenario.config), scenario.config)
    try:
        scenario.write(written)
    finally:
        written.log.close()
    return written


def open_to_append(directory: Path, config: dict[str, str]) -> milepost.Log:
    return milepost.open_log(str(directory), mode="a", config=config, clock=ManualClock(NOON))
