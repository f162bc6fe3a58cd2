"""Logs to read through Spark: written step by step, generated at random, and scanned plainly to know what must come out.

`write_log` takes steps and writes a partition with our own log, which has its own tests. `plain_scan` is the other half of every
comparison: it walks the files batch by batch with nothing but `iter_batches` and knows transactions from their markers alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.log.open import open_log
from milepost.record.batch import TimestampType
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch, build_legacy
from milepost.record.control import ControlType, EndTransactionMarker, control_type, end_transaction_batch
from milepost.record.records import Record
from tests.quick_disk import QuickDisk

NOW = 1_700_000_000_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """A batch of `values`: bytes or None. `times` are added to NOW, None is no timestamp; `gaps` are offsets left out before a record."""

    values: tuple[bytes | None, ...]
    times: tuple[int | None, ...] = ()
    keys: tuple[bytes | None, ...] = ()
    headers: tuple[tuple[str, bytes | None], ...] = ()
    codec: Codec = Codec.NONE
    magic: int = 2
    append_time: int | None = None
    producer: int | None = None
    """Transactional, by this producer."""
    gaps: tuple[int, ...] = ()


@dataclass(frozen=True)
class End:
    """The marker that ends a producer's transaction."""

    producer: int
    commit: bool


@dataclass(frozen=True)
class Gap:
    """Offsets that nothing has: what compaction leaves."""

    size: int


Step = Batch | End | Gap


def write_log(
    data: Path,
    topic: str = "t",
    partition: int = 0,
    steps: Sequence[Step] = (),
    *,
    segment_bytes: int = 1 << 20,
    interval: int = 4096,
) -> Path:
    """The directory of the partition, closed cleanly. A log that is there goes on at its end."""
    directory = data / f"{topic}-{partition}"
    config = {"segment.bytes": segment_bytes, "index.interval.bytes": interval}
    data.mkdir(parents=True, exist_ok=True)
    with open_log(str(directory), "a", config, clock=ManualClock(NOW), disk=QuickDisk()) as log:
        sequences: dict[int, int] = {}
        offset = log.end_offset
        for step in steps:
            if isinstance(step, Gap):
                offset += step.size
                continue
            for data_of_batch in encode(step, offset, sequences):
                log.append_as_follower(data_of_batch)
                offset = log.end_offset
        log.update_high_watermark(log.end_offset)
    return directory


def encode(step: Batch | End, offset: int, sequences: dict[int, int]) -> list[bytes]:
    if isinstance(step, End):
        kind = ControlType.COMMIT if step.commit else ControlType.ABORT
        marker = EndTransactionMarker(kind, 0)
        return [end_transaction_batch(marker, offset=offset, timestamp=NOW, producer_id=step.producer, producer_epoch=0)]
    records = []
    for number, value in enumerate(step.values):
        time = step.times[number % len(step.times)] if step.times else number
        key = step.keys[number % len(step.keys)] if step.keys else b"k%d" % number
        offset += step.gaps[number % len(step.gaps)] if step.gaps else 0
        headers = step.headers if step.magic == 2 else ()
        records.append(Record(offset, -1 if time is None else NOW + time, key, value, headers))
        offset += 1
    kind, append_time = TimestampType.CREATE_TIME, -1
    if step.append_time is not None:
        kind, append_time = TimestampType.LOG_APPEND_TIME, NOW + step.append_time
    if step.magic < 2:
        codec = step.codec if step.codec is not Codec.ZSTD else Codec.GZIP
        made = build_legacy(records, magic=step.magic, codec=codec, timestamp_type=kind, log_append_time=append_time)
        return [bytes(batch.view()) for batch in iter_batches(made)]
    transaction: dict[str, Any] = {}
    if step.producer is not None:
        sequence = sequences.get(step.producer, 0)
        sequences[step.producer] = sequence + len(records) + sum(step.gaps) * len(records)
        transaction = {"producer_id": step.producer, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
    return [build_batch(records, codec=step.codec, timestamp_type=kind, log_append_time=append_time, **transaction)]


@dataclass
class Scan:
    """What is in a partition: every row, which of them are committed, and where the first undecided transaction starts."""

    rows: list[Row] = field(default_factory=list)
    committed: list[Row] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    """(offset, timestamp) of every record, markers too: what a lookup by time looks at."""
    end: int = 0
    last_stable: int = 0


def plain_scan(directory: Path) -> Scan:
    found = Scan()
    topic, _, partition = directory.name.rpartition("-")
    undecided: dict[int, list[Row]] = {}
    started: dict[int, int] = {}
    for path in sorted(directory.glob("*.log")):
        for batch in iter_batches(path.read_bytes()):
            records = list(batch.records())
            found.end = batch.next_offset
            found.times += [(record.offset, record.timestamp) for record in records]
            if batch.is_control:
                rows = undecided.pop(batch.producer_id, [])
                started.pop(batch.producer_id, None)
                if control_type(records[0].key) is ControlType.COMMIT:
                    found.committed += rows
                continue
            rows = [row_of(record, topic, int(partition), int(batch.timestamp_type)) for record in records]
            found.rows += rows
            if batch.is_transactional:
                undecided.setdefault(batch.producer_id, []).extend(rows)
                started.setdefault(batch.producer_id, batch.base_offset)
            else:
                found.committed += rows
    found.last_stable = min([found.end, *started.values()])
    found.committed = sorted((row for row in found.committed if row["offset"] < found.last_stable), key=lambda row: row["offset"])
    return found


def row_of(record: Record, topic: str, partition: int, timestamp_type: int) -> Row:
    limit = (2**63 - 1) // 1000
    fits = -limit <= record.timestamp <= limit
    return {
        "key": record.key,
        "value": record.value,
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp if fits and record.timestamp != -1 else None,
        "timestampType": timestamp_type,
        "headers": list(record.headers) or None,
        "bad_ts": None if fits else record.timestamp,
    }


# Logs at random.

contents = st.sampled_from([None, b"", b"v", b"value", b"x" * 40, bytes(range(7)), b"y" * 60])
moments = st.one_of(st.none(), st.integers(0, 40))


@st.composite
def batches(draw: st.DrawFn, producers: st.SearchStrategy[int | None]) -> Batch:
    magic = draw(st.sampled_from([2, 2, 2, 2, 1, 0]))
    producer = draw(producers) if magic == 2 else None
    return Batch(
        tuple(draw(st.lists(contents, min_size=1, max_size=5))),
        tuple(draw(st.lists(moments, min_size=1, max_size=3))),
        tuple(draw(st.lists(contents, min_size=1, max_size=2))),
        draw(st.sampled_from([(), (), (("a", b"1"), ("a", None), ("ü", b""))])),
        draw(st.sampled_from(list(Codec))),
        magic,
        draw(st.sampled_from([None, None, None, 20])) if magic > 0 else None,
        producer,
        tuple(draw(st.sampled_from([(), (), (0, 2), (3,)]))) if producer is None else (),
    )


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """A log: batches of all kinds, transactions that are committed, aborted or left open, and gaps."""
    found: list[Step] = []
    opened: set[int] = set()
    for _ in range(draw(st.integers(0, 25))):
        choice = draw(st.sampled_from(["batch", "batch", "batch", "transaction", "transaction", "end", "gap"]))
        if choice == "gap":
            found.append(Gap(draw(st.integers(1, 30))))
        elif choice == "end" and opened:
            producer = draw(st.sampled_from(sorted(opened)))
            opened.discard(producer)
            found.append(End(producer, draw(st.booleans())))
        else:
            producers = st.sampled_from([7, 8, 9]) if choice == "transaction" else st.none()
            batch = draw(batches(producers))
            found.append(batch)
            if batch.producer is not None:
                opened.add(batch.producer)
    return found


def many_batches(count: int, *, seed: int = 0, records: int = 3) -> Iterable[Batch]:
    """Plain batches with rising times, for logs whose size matters and whose content does not."""
    source = random.Random(seed)
    for number in range(count):
        values = tuple(source.randbytes(source.randint(10, 60)) for _ in range(records))
        yield Batch(values, tuple(range(number * records, number * records + records)))
