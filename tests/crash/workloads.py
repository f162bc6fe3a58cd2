"""What is done to a log while it crashes: one small run for each thing that a log does.

A workload prepares a log, and then does the one thing in question. Only the second part is crashed; what came before
counts as recorded, and not as durable unless it was flushed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.config.topic import LogConfig
from milepost.log.cleaning.cleanable import measure
from milepost.log.cleaning.cleaner import Cleaner
from milepost.log.cleaning.offset_map import OffsetMap
from milepost.log.cleaning.swap import Swap
from milepost.log.open import open_log
from milepost.log.retention import delete_old_segments
from milepost.record.control import ControlType
from milepost.segment.segment import Segment
from tests.crash.history import Expected, History, Level, as_stored, facts
from tests.crash.invariants import Known, scan
from tests.crash.memory_disk import State
from tests.crash.recorder import Operation, RecordingDisk
from tests.crash.replayer import process_deaths
from tests.crash.sample import DATA, NOW, PARTITION, SETTINGS, Writer, batch, small_state
from tests.crash.sweeps import LOG_STARTS, RECOVERY_POINTS, Original

SMALL: Mapping[str, object] = {"segment.bytes": 700, "index.interval.bytes": 120, "segment.index.bytes": 96}


@dataclass(slots=True)
class Run:
    """A recorded workload. Crashes come after `first` operations or later."""

    name: str
    initial: State
    trace: list[Operation]
    first: int
    config: LogConfig
    known: Known
    expected: Callable[[int, Level], Expected]
    history: History = field(default_factory=History)


def run(name: str) -> Run:
    prepare, act, settings = WORKLOADS[name]
    writer = Writer({**SMALL, **settings})
    prepare(writer)
    first = len(writer.disk.trace)
    act(writer)
    writer.disk.die()
    return Run(name, {}, writer.disk.trace, first, writer.config, writer.history.known, writer.history.at, writer.history)


def some(writer: Writer, batches: int = 6) -> None:
    """Batches of two producers and of none, in several codecs."""
    for _ in range(batches):
        codec = (Codec.NONE, Codec.LZ4, Codec.GZIP)[writer.number % 3]
        if writer.number % 3 == 2:
            writer.plain(1 + writer.number % 3, codec)
        else:
            writer.idempotent(1 + writer.number % 3, 1 + writer.number % 2, codec)


def transactions(writer: Writer) -> None:
    """One that commits and one that aborts, interleaved; the abort comes two segments later."""
    writer.idempotent(7, 1, transactional=True)
    writer.idempotent(8, 2, transactional=True)
    some(writer, 3)
    writer.end(7, ControlType.COMMIT)
    some(writer, 6)
    writer.idempotent(8, 1, transactional=True)
    writer.end(8, ControlType.ABORT)
    writer.idempotent(7, 1, transactional=True)


def nothing(writer: Writer) -> None:
    pass


def append(writer: Writer) -> None:
    some(writer, 7)


def append_and_flush(writer: Writer) -> None:
    for _ in range(4):
        some(writer, 2)
        writer.flush()


def flush_every_append(writer: Writer) -> None:
    for _ in range(5):
        some(writer, 1)
        writer.note("flushed", writer.log.end_offset)


def roll(writer: Writer) -> None:
    some(writer, 12)


def roll_by_hand(writer: Writer) -> None:
    some(writer, 2)
    writer.log.roll()
    writer.log.roll()
    some(writer, 2)
    writer.flush()


def follow(writer: Writer) -> None:
    for _ in range(3):
        writer.leader_epoch += 1
        writer.replicate([batch(writer.number + index, records=1 + index) for index in range(3)])
    writer.flush()


def new_leaders(writer: Writer) -> None:
    for epoch in (1, 2, 5):
        writer.leader_epoch = epoch
        some(writer, 2)


def flushed_log(writer: Writer) -> None:
    some(writer, 14)
    writer.flush()
    writer.checkpoint()
    some(writer, 2)


def retention(writer: Writer) -> None:
    writer.log.update_high_watermark(writer.log.end_offset)
    bases = writer.log.segments.base_offsets()
    writer.note("delete", bases[2])
    writer.log.delete_segments(list(writer.log.segments)[:2])
    writer.note("deleted")
    writer.log.scheduler.run_due()
    some(writer, 1)


def retention_of_everything(writer: Writer) -> None:
    writer.log.update_high_watermark(writer.log.end_offset)
    writer.clock.advance(1000)
    writer.note("delete", writer.log.end_offset)
    delete_old_segments(writer.log)
    writer.note("deleted")
    writer.log.scheduler.run_due()
    some(writer, 2)


def delete_records(writer: Writer) -> None:
    writer.log.update_high_watermark(writer.log.end_offset)
    target = writer.log.segments.base_offsets()[1] + 2
    writer.note("forget", target)
    writer.log.delete_records(target)
    some(writer, 1)
    writer.checkpoint()
    writer.note("delete", writer.log.segments.base_offsets()[1])
    delete_old_segments(writer.log)
    writer.note("deleted")
    writer.log.scheduler.run_due()


def truncate(writer: Writer) -> None:
    target = writer.log.segments.base_offsets()[1] + 2
    writer.truncate(target)
    writer.number += 100
    some(writer, 3)
    writer.flush()


def truncate_and_roll(writer: Writer) -> None:
    """The offsets that were cut off are written again, past the recovery point that was checkpointed before."""
    writer.truncate(writer.log.segments.base_offsets()[1] + 1)
    writer.number += 100
    some(writer, 12)


def truncate_transactions(writer: Writer) -> None:
    target = writer.log.segments.base_offsets()[1]
    writer.truncate(target)
    some(writer, 2)


def truncate_an_abort(writer: Writer) -> None:
    """The marker that aborted a transaction is cut off, and another commits it. The segment is sealed after that, and trusted."""
    writer.truncate(writer.log.end_offset - 1)
    writer.end(8, ControlType.COMMIT)
    writer.log.roll()
    writer.flush()
    writer.checkpoint()
    some(writer, 1)


def aborted(writer: Writer) -> None:
    some(writer, 4)
    writer.idempotent(8, 2, transactional=True)
    writer.end(8, ControlType.ABORT)
    writer.flush()
    writer.checkpoint()


def truncate_fully(writer: Writer) -> None:
    writer.note("truncate", 0)
    writer.log.truncate_fully_and_start_at(1000)
    writer.note("truncated", 0)
    some(writer, 3)
    writer.flush()


def snapshot(writer: Writer) -> None:
    some(writer, 1)
    writer.log.producers.take_snapshot()
    some(writer, 1)
    writer.log.roll()
    some(writer, 1)


def checkpoint(writer: Writer) -> None:
    some(writer, 3)
    writer.flush()
    writer.checkpoint()
    some(writer, 2)
    writer.log.roll()
    writer.checkpoint()


def clean_stop(writer: Writer) -> None:
    writer.close()


def stop_and_start(writer: Writer) -> None:
    writer.close()
    writer.open()
    some(writer, 3)
    writer.close()
    writer.open()


def keyed(writer: Writer) -> None:
    """Many values of few keys, a transaction that aborts among them, and a segment more that stays dirty."""
    for index in range(12):
        writer.plain(2, key=b"k%d" % (index % 3))
    writer.idempotent(7, 1, transactional=True)
    writer.end(7, ControlType.ABORT)
    some(writer, 10)
    writer.flush()
    writer.checkpoint()


def compact(writer: Writer) -> None:
    """The cleaner's swaps. Which records survive is other tests' question; that each group is all here or not at all is ours."""
    log = writer.log
    log.update_high_watermark(log.end_offset)
    swap = log.swap

    def noted(new: Sequence[Segment], old: Sequence[Segment]) -> Swap:
        before, after = stored_in(writer, old), stored_in(writer, new)
        what = ([batch for batch in before if batch not in after], [batch for batch in after if batch not in before])
        writer.note("replace", what)
        made = swap(new, old)
        step = made.step

        def stepped() -> None:
            step()
            if made.is_done:
                writer.note("replaced", what)

        made.step = stepped
        return made

    log.swap = noted
    stats = Cleaner(OffsetMap(4096)).clean(measure(log, None))
    assert stats.bytes_read > stats.bytes_written > 0
    log.scheduler.run_due()


def stored_in(writer: Writer, segments: Sequence[Segment]) -> list[bytes]:
    """The batches of some segments as they are in their files."""
    return [
        batch.stored for segment in segments for _, batch in scan(bytes(writer.disk.node(segment.log.path).data), frozenset())[0]
    ]


def recovery(name: str, state: State, config: LogConfig, known: Known, expected: Expected) -> Run:
    """Opening a log is a workload too: a crash in the middle of it must not cost more than the first one did."""
    disk = RecordingDisk(state, [PARTITION])
    open_log(PARTITION, "a", config, clock=ManualClock(NOW), disk=disk)
    disk.die()
    return Run(name, state, disk.trace, 0, config, known, lambda after, level: expected)


def recoveries() -> Iterator[Run]:
    writer = Writer(SMALL)
    transactions(writer)
    writer.flush()
    writer.checkpoint()
    some(writer, 5)
    writer.disk.die()
    original = Original(small_state(writer), writer.history.known)
    last, middle = original.logs()[-1], original.logs()[1]
    cases = [
        original.with_file(last, original.state[last][:-20], "torn"),
        original.with_file(middle, flipped(original.state[middle], 100), "damaged in the middle", 0),
        original.with_file(middle.replace(".log", ".index"), None, "without its index"),
        original.with_file(f"{PARTITION}/leader-epoch-checkpoint", b"0\n1\n", "torn"),
        original.with_file(f"{DATA}/recovery-point-offset-checkpoint", b"0\n1\nt 0", "torn"),
    ]
    for case in cases:
        yield recovery(f"recovery: {case.label}", case.state, writer.config, writer.history.known, case.expected)
    yield overflowed()
    yield from interrupted_swaps()


def grown() -> Iterator[Run]:
    """A log whose checkpoints lie beyond its end, opened, and then grown past them: they must not speak of what is new."""
    for name, checkpoint, beyond in (("log start", LOG_STARTS, 2), ("recovery point", RECOVERY_POINTS, 10)):
        earlier = Writer(SMALL)
        some(earlier, 8)
        earlier.close()
        earlier.disk.die()
        state = {path: data for path, data in small_state(earlier).items() if not path.endswith(".kafka_cleanshutdown")}
        wrong = earlier.log.end_offset + beyond
        state[checkpoint] = b"0\n1\nt 0 %d\n" % wrong
        events = [(0, kind, what) for _, kind, what in earlier.history.events]
        writer = Writer(SMALL, RecordingDisk(state, [PARTITION]), History(events))
        writer.sequences, writer.number = earlier.sequences, earlier.number
        some(writer, 2)
        writer.log.roll()
        some(writer, 5)
        writer.flush()
        writer.disk.die()
        resumes_at = wrong if checkpoint == LOG_STARTS else -1

        def at(operations: int, level: Level, history: History = writer.history, resumes_at: int = resumes_at) -> Expected:
            return replace(history.at(operations, level), resumes_at=resumes_at)

        yield Run(f"growth past the {name}", state, writer.disk.trace, 0, writer.config, writer.history.known, at)


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def overflowed() -> Run:
    """A segment that old cleaners overfilled: its offsets do not fit four bytes, so it is split while it is recovered."""
    far = 2**31 + 5
    first = [as_stored(batch(number), offset, 0) for number, offset in enumerate((0, 1, 2, far, far + 1))]
    later = as_stored(batch(9), far + 50, 0)
    state = {
        f"{PARTITION}/{0:020d}.log": b"".join(first),
        f"{PARTITION}/{far + 50:020d}.log": later,
    }
    stored = [facts(one) for one in (*first, later)]
    known = frozenset(one.stored for one in stored)
    return recovery("recovery: split", state, LogConfig.parse(SETTINGS), known, Expected(stored, known, stored))


def interrupted_swaps() -> Iterator[Run]:
    """A process that died in a swap, at each rename: the start that finishes or undoes it dies too."""
    for made in (run("compact"), overflowed()):
        for crash in process_deaths(made.initial, made.trace):
            operation = made.trace[crash.after - 1]
            if crash.after > made.first and operation.kind == "rename" and crash.label.startswith("after"):
                expected = made.expected(crash.after, Level.PROCESS)
                yield recovery(f"recovery: {made.name}, {crash.label}", crash.state, made.config, made.known, expected)


Step = Callable[[Writer], None]

WORKLOADS: dict[str, tuple[Step, Step, Mapping[str, object]]] = {
    "append": (nothing, append, {"segment.bytes": 4000}),
    "append and flush": (nothing, append_and_flush, {"segment.bytes": 4000}),
    "append, preallocated": (nothing, roll, {"preallocate": True}),
    "append, one entry per append": (nothing, follow, {"index.profile": "per-append"}),
    "flush every append": (nothing, flush_every_append, {"flush.messages": 1}),
    "roll": (some, roll, {}),
    "roll by hand": (some, roll_by_hand, {}),
    "follow": (some, follow, {}),
    "new leaders": (some, new_leaders, {}),
    "transactions": (nothing, transactions, {}),
    "retention": (flushed_log, retention, {}),
    "retention of everything": (flushed_log, retention_of_everything, {"retention.ms": 10}),
    "delete records": (flushed_log, delete_records, {}),
    "truncate": (flushed_log, truncate, {}),
    "truncate and roll": (flushed_log, truncate_and_roll, {}),
    "truncate transactions": (lambda writer: (transactions(writer), flushed_log(writer)), truncate_transactions, {}),
    "truncate an abort": (aborted, truncate_an_abort, {"segment.bytes": 4000}),
    "truncate fully": (flushed_log, truncate_fully, {}),
    "snapshot": (some, snapshot, {}),
    "checkpoint": (some, checkpoint, {}),
    "clean stop": (some, clean_stop, {}),
    "stop and start": (some, stop_and_start, {}),
    "compact": (keyed, compact, {"cleanup.policy": "compact"}),
}
