"""The order of writing, read from the recorded operations of every workload.

Cheaper and clearer than to hope that some crash shows what was forgotten.

    W-1  an append is answered when its bytes are in the kernel
    W-3  data synced, then the names of new files, and only then a checkpoint that speaks of them
    W-4  small files are replaced: temporary file, fsync, rename, sync of the directory
    W-5  a new segment's name is durable before the next segment is made, and before the recovery point passes into it; without side
         threads, as in these workloads, before anything is appended to it
    W-6  retention: new start published, then renames, then, later, removals
    W-7  truncation: the log is cut and synced before the epoch file follows
    W-8  the marker of a clean stop comes last, and goes first
    W-9  one owner

W-2, an fsync on all replicas before the answer, is a broker's.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator
from itertools import pairwise

import pytest

from milepost.errors import DirectoryLocked
from milepost.log.open import open_log
from tests.crash.history import Level
from tests.crash.recorder import Operation
from tests.crash.replayer import DATA_CHANGES, DROP, NAME_CHANGES, Durable, before
from tests.crash.sample import DATA, PARTITION, SETTINGS, Writer
from tests.crash.workloads import SMALL, WORKLOADS, Run, recoveries, run, some

SMALL_FILES = ("checkpoint", ".snapshot", ".kafka_cleanshutdown", "meta.properties", ".bad")
CHANGES = (*NAME_CHANGES, *DATA_CHANGES)

recorded = functools.cache(run)


@functools.cache
def recorded_recoveries() -> list[Run]:
    return list(recoveries())


def all_runs() -> Iterator[Run]:
    yield from map(recorded, WORKLOADS)
    yield from recorded_recoveries()


def durable_before(made: Run) -> Iterator[tuple[int, Operation, Durable]]:
    """Each operation, and the end of the run, with what was durable when it came."""
    durable = before(made.initial)
    for number, operation in enumerate([*made.trace, Operation("end", "")]):
        yield number, operation, durable
        durable.feed(number, operation)


def is_log(path: str) -> bool:
    return path.endswith(".log")


@pytest.mark.parametrize("name", WORKLOADS)
def test_w1_append_is_answered_after_its_bytes_were_written_in_one_piece(name):
    made = recorded(name)
    events = made.history.events
    for (start, kind, batches), (end, answered, _) in pairwise(events):
        if kind == "append":
            assert answered == "appended"
            writes = [
                operation.data for operation in made.trace[start:end] if operation.kind == "write" and is_log(operation.path)
            ]
            assert writes == [b"".join(batches)]


def test_w3_recovery_point_speaks_only_of_what_is_durable():
    points = 0
    for name in WORKLOADS:
        made = recorded(name)
        for number, operation, durable in durable_before(made):
            if operation.kind == "rename" and operation.target.endswith("/recovery-point-offset-checkpoint"):
                said = int(durable.content[operation.inode].split()[-1])
                there = b"".join(data for path, data in durable.state({}, DROP).items() if is_log(path))
                expected = made.expected(number, Level.PROCESS)
                missing = [batch for batch in expected.must if batch.last_offset < said and batch.stored not in there]
                assert not missing, f"{name}: the recovery point {said} covers {missing}, which are not durable"
                points += 1
    assert points >= 15


def test_w3_flush_leaves_no_byte_of_the_log_and_no_name_behind():
    flushes = 0
    for name in WORKLOADS:
        made = recorded(name)
        flushed = {when: offset for when, kind, offset in made.history.events if kind == "flushed"}
        for number, _, durable in durable_before(made):
            if number in flushed:
                deleted = {one.inode for one in made.trace[:number] if one.kind == "rename" and one.target.endswith(".deleted")}
                pending = [
                    operation
                    for _, operation in durable.pending
                    if (is_log(operation.path) or is_log(operation.target)) and operation.inode not in deleted
                ]
                assert not pending, (
                    f"{name}: after the flush up to {flushed[number]}, not durable: {[str(one) for one in pending]}"
                )
                flushes += 1
    assert flushes >= 28


def test_w4_small_files_are_replaced_whole():
    replaced = 0
    for made in all_runs():
        for number, operation in enumerate(made.trace):
            if operation.kind == "write" and operation.path.endswith(SMALL_FILES):
                raise AssertionError(f"{made.name}: {operation} writes into the file itself")
            if operation.kind == "rename" and operation.path.endswith(".tmp"):
                earlier = [
                    one.kind
                    for one in made.trace[:number]
                    if one.inode == operation.inode and one.kind in ("write", "truncate", "fsync")
                ]
                assert earlier[-1:] == ["fsync"], f"{made.name}: {operation} is not synced"
                assert made.trace[number + 1].kind == "sync", f"{made.name}: {operation}, then {made.trace[number + 1]}"
                assert made.trace[number + 1].path == posixpath.dirname(operation.path)
                replaced += 1
    assert replaced >= 230


def test_w5_name_of_a_new_segment_is_durable_before_its_first_batch():
    created = 0
    for made in all_runs():
        new: set[int] = set()
        for operation in made.trace:
            if (
                operation.kind == "create"
                and ".log" in operation.name
                and "hole" not in operation.name
                and "cut" not in operation.name
            ):
                new.add(operation.inode)
                created += 1
            elif operation.kind == "sync" and operation.path == PARTITION:
                new.clear()
            elif operation.kind == "write":
                assert operation.inode not in new, f"{made.name}: {operation} before the directory was synced"
    assert created >= 60


@pytest.mark.parametrize("name", ["retention", "retention of everything", "delete records"])
def test_w6_start_is_published_before_a_segment_is_renamed(name):
    made = recorded(name)
    renamed = 0
    for _, operation, durable in durable_before(made):
        if operation.kind == "rename" and operation.target.endswith(".log.deleted"):
            start = durable.names.get(f"{DATA}/log-start-offset-checkpoint")
            assert start is not None, f"{operation}: no start is published"
            assert int(operation.name.split(".")[0]) < int(durable.content[start].split()[-1])
            renamed += 1
    assert renamed >= 1


def test_w6_renamed_segment_is_removed_after_the_delay():
    writer = Writer({**SMALL, "file.delete.delay.ms": 60_000})
    some(writer, 14)
    writer.log.update_high_watermark(writer.log.end_offset)
    writer.log.delete_segments(list(writer.log.segments)[:2])
    start = len(writer.disk.trace)
    writer.clock.advance(59_999)
    writer.log.scheduler.run_due()
    assert len(writer.disk.trace) == start
    assert sum(path.endswith(".log.deleted") for path in writer.disk.nodes) == 2
    writer.clock.advance(1)
    writer.log.scheduler.run_due()
    assert not [path for path in writer.disk.nodes if path.endswith(".deleted")]
    writer.disk.die()


@pytest.mark.parametrize("name", ["truncate", "truncate and roll", "truncate transactions"])
def test_w7_cut_is_durable_before_the_epochs_follow(name):
    made = recorded(name)
    start, end = (next(when for when, kind, _ in made.history.events if kind == which) for which in ("truncate", "truncated"))
    steps = [
        (operation.kind, "epochs" if "leader-epoch" in operation.name else "log")
        for operation in made.trace[start:end]
        if (is_log(operation.path) and operation.kind in ("truncate", "fsync")) or "leader-epoch-checkpoint.tmp" in operation.name
    ]
    assert steps[:2] == [("truncate", "log"), ("fsync", "log")]


@pytest.mark.parametrize("name", ["truncate and roll", "truncate fully"])
def test_truncated_log_lowers_its_recovery_point_before_it_grows_again(name):
    """Else what is written behind the cut would count as synced (the checkpoint was written when it was)."""
    made = recorded(name)
    start, end = (next(when for when, kind, _ in made.history.events if kind == which) for which in ("truncate", "truncated"))
    offset = next(what for _, kind, what in made.history.events if kind == "truncate")
    durable = next(durable for number, _, durable in durable_before(made) if number == end)
    if name == "truncate and roll":
        assert int(durable.content[durable.names[f"{DATA}/recovery-point-offset-checkpoint"]].split()[-1]) == offset
    assert start < end


@pytest.mark.parametrize("name", ["clean stop", "stop and start"])
def test_w8_marker_comes_when_everything_else_is_durable(name):
    made = recorded(name)
    markers = 0
    for number, operation, durable in durable_before(made):
        if number >= made.first and operation.kind == "rename" and operation.target.endswith("/.kafka_cleanshutdown"):
            pending = [str(one) for _, one in durable.pending if not one.path.endswith((".lock", ".kafka_cleanshutdown.tmp"))]
            assert not pending
            markers += 1
    assert markers >= 1


def test_w8_marker_is_gone_durably_before_anything_else_is_changed():
    made = recorded("stop and start")
    opened = [number for number, operation in enumerate(made.trace) if operation.kind == "lock"]
    assert len(opened) == 3
    for start in opened[1:]:
        changes = [one for one in made.trace[start:] if one.kind in (*CHANGES, "sync") and one.name != ".lock"]
        assert [(one.kind, one.name) for one in changes[:2]] == [("unlink", ".kafka_cleanshutdown"), ("sync", "data")]


def test_w9_lock_is_taken_before_anything_is_changed():
    for made in all_runs():
        changes = [one for one in made.trace if one.kind in (*CHANGES, "lock") and one.kind != "create"]
        assert (changes[0].kind, changes[0].name, changes[0].size) == ("lock", ".lock", 1), made.name


def test_w9_second_owner_is_refused_at_once():
    writer = Writer()
    with pytest.raises(DirectoryLocked):
        open_log(PARTITION, "a", SETTINGS, disk=writer.disk)
    writer.plain()
    writer.disk.die()
