"""All logs of a process: where they live, what survives a restart, what a failing directory takes down."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.errors import DirectoryLocked, InvalidConfiguration, KafkaStorage, OffsetOutOfRange
from milepost.files import Disk
from milepost.log.directory.data_directory import LOG_STARTS
from milepost.log.manager import LogManager
from milepost.log.open import open_log
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition
from tests.log.making import idempotent

NOW = 1_700_000_000_000
PAGE_VISITS = TopicPartition("page_visits", 0)


class FailingDisk(Disk):
    """A disk whose fsync fails below one path from some moment on."""

    broken: str | None = None

    def __init__(self) -> None:
        self.paths: dict[int, str] = {}

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        fd = super().open(path, flags)
        self.paths[fd] = path
        return fd

    def fsync(self, fd: int) -> None:
        if self.broken and self.paths[fd].startswith(self.broken):
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.paths[fd])
        super().fsync(fd)


def make_manager(*directories: Path, disk: Disk | None = None, clock: ManualClock | None = None, topics=None, **properties):
    given = {"log.dirs": ",".join(map(str, directories)), **{name.replace("_", "."): value for name, value in properties.items()}}
    manager = LogManager(BrokerConfig.parse(given), topics, disk=disk, clock=clock or ManualClock(NOW), rng=random.Random(1))
    manager.startup()
    return manager


def put(log, *values: bytes) -> None:
    for value in values:
        log.append([Record(key=b"k", value=value)])


def values(log) -> list[bytes | None]:
    return [record.value for record in log.records()]


def test_partitions_spread_over_the_directories_so_that_none_holds_two_more_than_another(tmp_path):
    manager = make_manager(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    for number in range(20):
        manager.create(TopicPartition("spread", number))
    held = sorted(len(list((tmp_path / name).glob("spread-*"))) for name in "abc")
    assert held == [6, 7, 7]
    manager.shutdown()


def test_a_clean_stop_and_a_new_start_show_the_same_logs(tmp_path):
    manager = make_manager(tmp_path)
    put(manager.create(PAGE_VISITS), b"one", b"two")
    manager.shutdown()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    again = make_manager(tmp_path)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    log = again.get(PAGE_VISITS)
    assert (values(log), log.end_offset, log.high_watermark, log.recovery_point) == ([b"one", b"two"], 2, 2, 2)
    again.shutdown()


def test_a_start_without_the_marker_recovers_every_log(tmp_path):
    manager = make_manager(tmp_path)
    put(manager.create(PAGE_VISITS), b"one", b"two")
    manager.shutdown()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    path = tmp_path / "page_visits-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-3])
    again = make_manager(tmp_path)
    assert values(again.get(PAGE_VISITS)) == [b"one"]
    again.shutdown()


def test_a_manager_of_another_process_is_refused_and_told_who_owns_the_directory(tmp_path):
    manager = make_manager(tmp_path)
    program = (
        "import sys; from milepost.config.broker import BrokerConfig; from milepost.log.manager import LogManager\n"
        "LogManager(BrokerConfig.parse({'log.dirs': sys.argv[1]})).startup()"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert "DirectoryLocked" in ran.stderr and f"process {os.getpid()} has it open" in ran.stderr
    manager.shutdown()


def test_a_second_manager_of_the_same_process_is_refused(tmp_path):
    manager = make_manager(tmp_path)
    with pytest.raises(DirectoryLocked):
        make_manager(tmp_path)
    manager.shutdown()


def test_the_same_partition_in_two_directories_ends_the_start_and_names_both(tmp_path):
    for name in "ab":
        (tmp_path / name / "page_visits-0").mkdir(parents=True)
    with pytest.raises(KafkaStorage, match=r"/a/page_visits-0.*/b/page_visits-0"):
        make_manager(tmp_path / "a", tmp_path / "b")


def test_one_directory_under_two_names_is_refused_and_the_lock_let_go(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(DirectoryLocked):
        make_manager(tmp_path / "real", tmp_path / "link")
    make_manager(tmp_path / "real").shutdown()


def test_foreign_names_in_a_data_directory_are_left_alone(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "page_visits-x").mkdir()
    (tmp_path / "notes-1").write_text("a file, not a partition")
    manager = make_manager(tmp_path)
    assert manager.logs == {}
    manager.shutdown()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name in ("lost+found", "page_visits-x", "notes-1")) == [
        "lost+found",
        "notes-1",
        "page_visits-x",
    ]


def test_a_directory_whose_disk_fails_goes_offline_and_the_other_goes_on(tmp_path):
    disk = FailingDisk()
    manager = make_manager(tmp_path / "a", tmp_path / "b", disk=disk)
    logs = [manager.create(TopicPartition("t", number)) for number in range(2)]
    doomed = next(log for log in logs if log.directory.startswith(str(tmp_path / "a")))
    healthy = next(log for log in logs if log is not doomed)
    put(doomed, b"x")
    disk.broken = str(tmp_path / "a")
    with pytest.raises(KafkaStorage, match="offline"):
        doomed.flush()
    with pytest.raises(KafkaStorage):
        doomed.append([Record(value=b"y")])
    with pytest.raises(KafkaStorage):
        manager.get(doomed.partition)
    put(healthy, b"still here")
    assert values(manager.get(healthy.partition)) == [b"still here"]
    assert list(manager.offline) == [str(tmp_path / "a")]
    manager.shutdown()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()


def test_a_directory_that_cannot_be_made_is_offline_from_the_start(tmp_path):
    (tmp_path / "file").write_text("in the way")
    manager = make_manager(tmp_path / "file", tmp_path / "b")
    assert list(manager.offline) == [str(tmp_path / "file")]
    assert manager.create(PAGE_VISITS).directory == str(tmp_path / "b" / "page_visits-0")
    manager.shutdown()


def test_without_any_usable_directory_the_start_fails_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(KafkaStorage, match="none of the data directories"):
        make_manager(tmp_path / "file")


def test_a_deleted_partition_is_renamed_at_once_and_gone_after_the_delay(tmp_path):
    clock = ManualClock(NOW)
    manager = make_manager(tmp_path, clock=clock)
    put(manager.create(PAGE_VISITS), b"x")
    manager.delete(PAGE_VISITS)
    assert manager.get(PAGE_VISITS) is None
    (renamed,) = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert renamed.startswith("page_visits-0.") and renamed.endswith("-delete")
    clock.advance(60_000)
    list(manager.maintenance.pieces())
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    manager.shutdown()


def test_a_partition_that_is_set_aside_is_kept_and_not_loaded_again(tmp_path):
    clock = ManualClock(NOW)
    manager = make_manager(tmp_path, clock=clock)
    put(manager.create(PAGE_VISITS), b"x")
    kept = Path(manager.set_aside(PAGE_VISITS))
    assert kept.name.startswith("page_visits-0.") and kept.name.endswith("-stray")
    assert manager.create(PAGE_VISITS).end_offset == 0
    clock.advance(60_000)
    list(manager.maintenance.pieces())
    manager.shutdown()
    manager = make_manager(tmp_path, clock=clock)
    assert manager.create(PAGE_VISITS).end_offset == 0
    with open_log(kept) as log:
        assert log.end_offset == 1
    manager.shutdown()


def test_logs_of_a_topic_are_those_that_are_there(tmp_path):
    manager = make_manager(tmp_path / "a", tmp_path / "b")
    for topic, number in (("visits", 0), ("visits", 1), ("orders", 0)):
        manager.create(TopicPartition(topic, number))
    manager.delete(TopicPartition("visits", 0))
    manager.set_aside(TopicPartition("orders", 0))
    assert [str(log.partition) for log in manager.logs_of("visits")] == ["visits-1"]
    assert manager.logs_of("orders") == manager.logs_of("nothing") == []
    manager.shutdown()
    again = make_manager(tmp_path / "a", tmp_path / "b")
    assert [str(log.partition) for log in again.logs_of("visits")] == ["visits-1"]
    again.shutdown()


def test_a_delete_directory_left_by_a_crash_is_removed_after_the_delay(tmp_path):
    doomed = tmp_path / f"page_visits-0.{'0' * 32}-delete"
    doomed.mkdir()
    (doomed / "00000000000000000000.log").write_bytes(b"")
    clock = ManualClock(NOW)
    manager = make_manager(tmp_path, clock=clock)
    clock.advance(60_000)
    list(manager.maintenance.pieces())
    assert not doomed.exists()
    manager.shutdown()


def test_old_segments_go_with_the_retention_pass(tmp_path):
    clock = ManualClock(NOW)
    topics = {"page_visits": {"segment.bytes": 100, "retention.ms": 1000}}
    manager = make_manager(tmp_path, clock=clock, topics=topics)
    log = manager.create(PAGE_VISITS)
    put(log, b"one", b"two", b"three")
    clock.advance(400_000)
    list(manager.maintenance.pieces())
    clock.advance(400_000)
    list(manager.maintenance.pieces())
    assert (log.start_offset, len(log.segments)) == (3, 1)
    with pytest.raises(OffsetOutOfRange):
        log.read(0)
    manager.shutdown()


def test_the_log_start_checkpoint_names_only_partitions_whose_start_is_inside_a_segment(tmp_path):
    manager = make_manager(tmp_path)
    first, second = (manager.create(TopicPartition("t", number)) for number in range(2))
    put(first, b"a", b"b", b"c")
    put(second, b"a")
    first.delete_records(2)
    list(manager.maintenance.checkpoint(LOG_STARTS))
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    manager.shutdown()
    again = make_manager(tmp_path)
    assert again.get(TopicPartition("t", 0)).start_offset == 2
    again.shutdown()


def test_checkpoints_are_written_when_their_time_has_come(tmp_path):
    clock = ManualClock(NOW)
    manager = make_manager(tmp_path, clock=clock)
    log = manager.create(PAGE_VISITS)
    put(log, b"a", b"b")
    log.flush()
    list(manager.maintenance.pieces())
    clock.advance(60_000)
    list(manager.maintenance.pieces())
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\npage_visits 0 2\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\npage_visits 0 2\n"
    manager.shutdown()


def test_producers_expire_and_high_watermarks_are_written_from_the_start_the_rest_waits(tmp_path):
    clock = ManualClock(NOW)
    manager = make_manager(
        tmp_path / "data",
        clock=clock,
        producer_id_expiration_ms="1000",
        producer_id_expiration_check_interval_ms="1000",
        log_flush_offset_checkpoint_interval_ms="5000",
    )
    log = manager.create(PAGE_VISITS)
    log.append(idempotent(0))
    list(manager.maintenance.pieces())
    clock.advance(1000)
    list(manager.maintenance.pieces())
    assert log.producers.is_empty
    clock.advance(4000)
    list(manager.maintenance.pieces())
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert "replication-offset-checkpoint" in names and "recovery-point-offset-checkpoint" not in names
    clock.advance(25_000)
    list(manager.maintenance.pieces())
    assert (tmp_path / "data" / "recovery-point-offset-checkpoint").exists(), "log.initial.task.delay.ms is over"
    manager.shutdown()


def test_a_log_whose_flush_time_has_come_is_flushed(tmp_path):
    clock = ManualClock(NOW)
    manager = make_manager(
        tmp_path, clock=clock, topics={"page_visits": {"flush.ms": 1000}}, log_flush_scheduler_interval_ms=1000
    )
    log = manager.create(PAGE_VISITS)
    put(log, b"a")
    list(manager.maintenance.pieces())
    assert log.recovery_point == 0
    clock.advance(40_000)
    list(manager.maintenance.pieces())
    assert log.recovery_point == 1
    manager.shutdown()


def test_a_topic_takes_its_own_settings_over_the_brokers(tmp_path):
    manager = make_manager(tmp_path, topics={"page_visits": {"segment.bytes": 1000}}, log_segment_bytes=5000)
    assert manager.create(PAGE_VISITS).config.segment_bytes == 1000
    assert manager.create(TopicPartition("other", 0)).config.segment_bytes == 5000
    manager.shutdown()


def test_an_unknown_topic_property_is_an_error_that_names_it(tmp_path):
    with pytest.raises(InvalidConfiguration, match=r"segment\.byte"):
        make_manager(tmp_path, topics={"page_visits": {"segment.byte": 1000}})


def test_many_more_logs_than_descriptors_work(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    manager = make_manager(tmp_path)
    manager.pool.limit = 16
    logs = [manager.create(TopicPartition("many", number)) for number in range(100)]
    for round_number in range(3):
        for log in logs:
            put(log, b"%d" % round_number)
    assert all(values(log) == [b"0", b"1", b"2"] for log in logs)
    assert len(os.listdir("/proc/self/fd")) - before <= 20
    manager.shutdown()


def test_a_topic_id_is_kept_and_another_one_refused(tmp_path):
    manager = make_manager(tmp_path)
    manager.create(PAGE_VISITS, topic_id="sVp0uTNDRvWeRzjAdnPGZg")
    text = (tmp_path / "page_visits-0" / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: sVp0uTNDRvWeRzjAdnPGZg"
    manager.shutdown()


def test_a_compacted_log_is_cleaned_and_the_checkpoint_moves(tmp_path):
    topics = {"kv": {"cleanup.policy": "compact", "segment.bytes": 200, "min.cleanable.dirty.ratio": 0}}
    manager = make_manager(tmp_path, topics=topics)
    partition = TopicPartition("kv", 0)
    log = manager.create(partition)
    put(log, *(b"%d" % number for number in range(10)))
    assert manager.clean() is log
    assert log.end_offset == 10
    assert values(log)[-1] == b"9" and len(values(log)) < 10
    checkpoint = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
    assert checkpoint[:2] == ["0", "1"] and checkpoint[2].startswith("kv 0 ")
    assert manager.clean() is None
    manager.shutdown()


def test_a_search_by_time_goes_on_behind_a_segment_that_cleaning_emptied(tmp_path):
    topics = {"kv": {"cleanup.policy": "compact", "segment.bytes": "100", "min.cleanable.dirty.ratio": "0.01"}}
    manager = make_manager(tmp_path / "data", topics=topics)
    log = manager.create(TopicPartition("kv", 0))
    for time in (10, 20, 30):
        log.append([Record(key=b"k", value=b"v" * 20, timestamp=time)])
    assert manager.clean() is log
    assert [segment.size > 0 for segment in log.segments] == [False, True, True]
    # The emptied segment is as new as its file, and that is newer than any of the records.
    assert (log.find(time=15).offset, log.find(time=25).offset) == (1, 2)
    assert log.offset_for(15).offset == 1
    assert log.find(time=31) is None
    manager.shutdown()
