"""A topic of the same name as one that was deleted: it starts at zero, whatever was left of the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from milepost.clock import ManualClock
from milepost.log.directory.data_directory import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from milepost.log.maintenance.scheduler import Scheduler, Task, WorkQueue
from milepost.log.maintenance.side_thread import BackgroundScheduler
from milepost.topic_partition import TopicPartition
from tests.log.making import log_in
from tests.log.managers import BOTH, COMPACTED, NEW, OTHER, VISITS, filled, made_again, put, values


class SlowScheduler(Scheduler):
    """What is given aside waits until somebody has to have it."""

    def __init__(self, clock: ManualClock):
        super().__init__(clock)
        self.waiting: list[Callable[[], None]] = []

    def in_background(self, work, then, failed, work_queue=WorkQueue.METADATA) -> None:
        self.waiting.append(partial(super().in_background, work, then, failed, work_queue))

    def wait(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        while self.waiting and not is_enough():
            self.waiting.pop(0)()

    def all(self, works: Sequence[Task]) -> list[OSError | None]:
        return Scheduler(self._clock).all(works)


@pytest.mark.parametrize("how", ["delete", "set aside"])
@pytest.mark.parametrize("is_checkpointed", [True, False])
def test_topic_made_again_starts_at_zero_also_after_a_crash(managers, tmp_path, how, is_checkpointed):
    manager = managers.start(BOTH | {"retention.ms": -1})
    log = filled(manager, 20)
    log.flush()
    log.delete_records(16)
    manager.clean()
    if is_checkpointed:
        for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
            list(manager.maintenance.checkpoint(name))
    manager.delete(VISITS) if how == "delete" else manager.set_aside(VISITS)
    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS):
        path = managers.directory / name
        assert not path.exists() or "visits" not in path.read_text()
    new = manager.create(VISITS)
    put(new, *NEW)
    assert (new.start_offset, new.end_offset, values(new)) == (0, 6, NEW)
    put(new, *(f"more{number}" for number in range(20)))
    again = managers.after_crash(COMPACTED, tmp_path / "copy").logs[VISITS]
    assert (again.start_offset, again.end_offset, again.high_watermark) == (0, 26, 0)


def test_topic_made_again_after_a_crash_that_left_its_checkpoints_starts_at_zero(managers, tmp_path):
    """The crash came between the rename of the directory and the checkpoints."""
    manager = managers.start({})
    put(manager.create(OTHER), "one")
    manager.shutdown()
    (managers.directory / LOG_STARTS).write_text("0\n1\nvisits 0 16\n")
    manager = managers.start({})
    log = manager.create(VISITS)
    put(log, *NEW)
    assert (log.start_offset, values(log)) == (0, NEW)
    put(log, *(f"more{number}" for number in range(20)))
    again = managers.after_crash({}, tmp_path / "copy").logs[VISITS]
    assert (again.start_offset, again.end_offset) == (0, 26)


def test_checkpoints_without_a_deleted_topic_are_written_before_its_name_is_used_again(managers, tmp_path):
    """By side threads, and the loop that would begin the rewrite has no time."""
    manager = managers.start({})
    posted: list[Callable[[], None]] = []
    manager.scheduler = BackgroundScheduler(managers.clock, posted.append)
    log = manager.create(VISITS)
    put(log, *(f"old{number}" for number in range(20)))
    log.delete_records(16)
    list(manager.maintenance.checkpoint(LOG_STARTS))
    manager.scheduler.wait()
    made_again(manager)()
    put(manager.logs[VISITS], *(f"more{number}" for number in range(20)))
    again = managers.after_crash({}, tmp_path / "copy").logs[VISITS]
    assert (again.start_offset, again.end_offset) == (0, 26)
    for task in posted:
        task()
    manager.scheduler.wait()
    list(manager.maintenance.checkpoint(HIGH_WATERMARKS))
    manager.scheduler.stop()
    assert (managers.directory / HIGH_WATERMARKS).read_text() == "0\n1\nvisits 0 26\n"


def test_topic_of_many_partitions_that_goes_is_taken_out_of_the_checkpoints_a_few_times_not_once_for_each(managers):
    """The disk is slower than the loop, which takes partitions away one pass after the other."""
    manager = managers.start({})
    names = [TopicPartition("visits", number) for number in range(200)]
    for name in names:
        put(manager.create(name), "one")
    list(manager.maintenance.checkpoint(HIGH_WATERMARKS))
    manager.scheduler = scheduler = SlowScheduler(managers.clock)
    for name in names[:100]:
        manager.delete(name)
    assert len(scheduler.waiting) == 1
    scheduler.wait()
    for name in names[100:]:
        manager.delete(name)
    assert len(scheduler.waiting) == 1
    scheduler.wait()
    assert (managers.directory / HIGH_WATERMARKS).read_text() == "0\n0\n"


def test_log_that_is_opened_on_its_own_and_is_new_does_not_start_where_an_earlier_one_did(tmp_path):
    (tmp_path / LOG_STARTS).write_text("0\n1\ntopic 0 16\n")
    log = log_in(tmp_path)
    put(log, *NEW)
    assert (log.start_offset, values(log)) == (0, NEW)
    log.close()
    assert (tmp_path / LOG_STARTS).read_text() == "0\n0\n"
