"""`open_log`: looking without touching, owning a data directory, and what a clean stop is worth."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

import milepost
from milepost import LogConfig, open_log
from milepost.clock import ManualClock
from milepost.errors import DirectoryLocked, InvalidArgument, InvalidConfiguration, KafkaStorage
from milepost.record.records import Record
from tests.log.making import NOW, log_in, offsets, produced


def contents(directory):
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def some_log(tmp_path, count=3, **config):
    with log_in(tmp_path, **config) as log:
        for _ in range(count):
            log.append_as_leader(produced(2, size=100))


def marker(tmp_path):
    return tmp_path / ".kafka_cleanshutdown"


# For reading.


def test_reading_needs_no_configuration_and_shows_what_is_there(tmp_path):
    some_log(tmp_path)
    with open_log(str(tmp_path / "topic-0")) as log:
        assert [record.offset for record in log.records()] == [0, 1, 2, 3, 4, 5]
        assert (log.start_offset, log.end_offset, log.high_watermark) == (0, 6, 6)


def test_path_may_be_a_path_object_and_may_end_with_a_slash(tmp_path):
    some_log(tmp_path)
    assert open_log(tmp_path / "topic-0").end_offset == 6
    assert open_log(f"{tmp_path}/topic-0/").end_offset == 6


def test_reading_changes_nothing(tmp_path):
    some_log(tmp_path)
    before = contents(tmp_path)
    with log_in(tmp_path, mode="r") as log:
        list(log.records())
        log.find(time=0)
    assert contents(tmp_path) == before


def test_reading_a_torn_log_without_indexes_changes_nothing_either(tmp_path):
    some_log(tmp_path)
    marker(tmp_path).unlink()
    path = tmp_path / "topic-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-30])
    for suffix in (".index", ".timeindex"):
        path.with_suffix(suffix).unlink()
    (tmp_path / "topic-0" / "00000000000000000006.snapshot").unlink()
    before = contents(tmp_path)
    with log_in(tmp_path, mode="r") as log:
        assert offsets(log) == [0, 1, 2, 3]
        assert log.find(time=0).offset == 0
    assert contents(tmp_path) == before


def test_reading_beside_the_owner_sees_the_log_as_it_was_when_opened(tmp_path):
    owner = log_in(tmp_path)
    owner.append_as_leader(produced(2))
    reader = log_in(tmp_path, mode="r")
    owner.append_as_leader(produced(2))
    assert offsets(reader) == [0, 1]
    assert offsets(log_in(tmp_path, mode="r")) == [0, 1, 2, 3]
    owner.close()
    assert offsets(reader) == [0, 1]


def test_copy_under_any_name_can_be_read(tmp_path):
    some_log(tmp_path)
    shutil.copytree(tmp_path / "topic-0", tmp_path / "a copy of it")
    assert open_log(str(tmp_path / "a copy of it")).end_offset == 6


def test_missing_directory_is_named(tmp_path):
    with pytest.raises(KafkaStorage, match=r"nothing-0: no such directory; name a partition directory such as page_visits-0"):
        open_log(str(tmp_path / "nothing-0"))
    assert os.listdir(tmp_path) == []


def test_empty_directory_reads_as_an_empty_log(tmp_path):
    (tmp_path / "topic-0").mkdir()
    log = log_in(tmp_path, mode="r")
    assert (log.start_offset, log.end_offset, list(log.records())) == (0, 0, [])
    assert os.listdir(tmp_path / "topic-0") == []


def test_fifo_with_the_name_of_a_segment_is_refused(tmp_path):
    some_log(tmp_path)
    os.mkfifo(tmp_path / "topic-0" / "00000000000000000099.log")
    with pytest.raises(KafkaStorage, match=r"99\.log: not a regular file"):
        log_in(tmp_path, mode="r")


def test_symbolic_link_with_the_name_of_a_segment_is_refused(tmp_path):
    some_log(tmp_path)
    (tmp_path / "topic-0" / "00000000000000000099.log").symlink_to("/etc/passwd")
    with pytest.raises(KafkaStorage, match=r"99\.log: not a regular file"):
        log_in(tmp_path, mode="r")


# For appending.


def test_new_log_is_made_with_its_directories(tmp_path):
    with open_log(str(tmp_path / "data" / "page_visits-0"), "a") as log:
        log.append([Record(0, NOW, b"user", b"GET /home")])
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        ".kafka_cleanshutdown",
        ".lock",
        "log-start-offset-checkpoint",
        "page_visits-0",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert sorted(path.name for path in (tmp_path / "data" / "page_visits-0").iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_log_goes_on_where_it_was_closed(tmp_path):
    some_log(tmp_path)
    with log_in(tmp_path) as log:
        assert log.append_as_leader(produced()).first_offset == 6


def test_settings_go_by_kafkas_names_or_as_an_object(tmp_path):
    with open_log(str(tmp_path / "a-0"), "a", {"segment.bytes": 200, "index.interval.bytes": "0"}) as log:
        assert (log.config.segment_bytes, log.config.index_interval_bytes) == (200, 0)
    with open_log(str(tmp_path / "a-0"), "a", LogConfig(segment_bytes=300)) as log:
        assert log.config.segment_bytes == 300
    with pytest.raises(InvalidConfiguration):
        open_log(str(tmp_path / "a-0"), "a", {"segment.byte": 200})


@pytest.mark.parametrize("mode", ["w", "", "rw", "x"])
def test_other_modes_are_refused(tmp_path, mode):
    with pytest.raises(InvalidArgument, match="'r' opens a log for reading, 'a' for appending"):
        open_log(str(tmp_path / "topic-0"), mode)


@pytest.mark.parametrize("name", ["topic", "topic-", "topic-x", "-0"])
def test_directory_that_names_no_partition_is_not_made_into_a_log(tmp_path, name):
    with pytest.raises(KafkaStorage, match=r"expected <topic>-<partition>|a topic's name"):
        open_log(str(tmp_path / name), "a")
    assert not (tmp_path / name).exists()


def test_second_owner_in_the_same_process_is_refused(tmp_path):
    log = log_in(tmp_path)
    with pytest.raises(DirectoryLocked, match=f"pid {os.getpid()}"):
        log_in(tmp_path)
    log.close()
    log_in(tmp_path).close()


def test_owner_in_another_process_is_named(tmp_path):
    program = (
        f"import sys; from milepost import open_log; log = open_log({str(tmp_path / 'topic-0')!r}, 'a');"
        "print('open', flush=True); sys.stdin.read(); log.close()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        with pytest.raises(DirectoryLocked, match=f"process {process.pid}"):
            log_in(tmp_path)
        assert log_in(tmp_path, mode="r").end_offset == 0
        process.communicate()
    log_in(tmp_path).close()


def test_failed_open_lets_go_of_the_directory(tmp_path):
    some_log(tmp_path)
    os.mkfifo(tmp_path / "topic-0" / "00000000000000000099.log")
    for _ in range(2):
        with pytest.raises(KafkaStorage, match="not a regular file"):
            log_in(tmp_path)


def test_closing_twice_is_closing_once(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced())
    log.close()
    before = contents(tmp_path)
    log.close()
    assert contents(tmp_path) == before


def test_error_in_the_with_block_still_closes_the_log(tmp_path):
    with pytest.raises(RuntimeError), log_in(tmp_path) as log:
        log.append_as_leader(produced())
        raise RuntimeError
    assert log.is_closed
    assert marker(tmp_path).exists()


# The clean stop.


def test_marker_is_gone_while_the_log_is_open_and_says_how_it_was_left(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(3, size=150))
    assert not marker(tmp_path).exists()
    log.close()
    content = json.loads(marker(tmp_path).read_text())
    assert content == {"version": 0, "brokerEpoch": -1, "milepost": {"topic-0": [3, 150]}}


def test_clean_start_reads_no_batches_and_keeps_the_recovery_point_at_the_end(tmp_path):
    some_log(tmp_path)
    log = log_in(tmp_path)
    assert (log.recovery_point, log.recovered) == (6, ())


def test_start_after_a_crash_recovers_from_the_recovery_point(tmp_path):
    some_log(tmp_path)
    marker(tmp_path).unlink()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\ntopic 0 4\n")
    log = log_in(tmp_path)
    assert (log.recovery_point, log.recovered) == (4, (0,))
    assert log.end_offset == 6


@pytest.mark.parametrize("content", ["", '{"version":0,"brokerEpoch":7}'])
def test_marker_that_kafka_wrote_counts_as_clean(tmp_path, content):
    some_log(tmp_path)
    marker(tmp_path).write_text(content)
    assert log_in(tmp_path).recovered == ()


@pytest.mark.parametrize(
    "content",
    [
        '{"version":0,"brokerEpoch":-1,"milepost":{"topic-0":[6,299]}}',
        '{"version":0,"brokerEpoch":-1,"milepost":{"other-0":[6,300]}}',
        "not json",
    ],
    ids=["another size", "another partition", "noise"],
)
def test_marker_that_does_not_agree_with_the_log_counts_for_nothing(tmp_path, content):
    some_log(tmp_path)
    marker(tmp_path).write_text(content)
    assert log_in(tmp_path).recovered == (0,)


def test_failed_start_leaves_no_marker_so_the_next_one_recovers(tmp_path):
    some_log(tmp_path)
    fifo = tmp_path / "topic-0" / "00000000000000000099.log"
    os.mkfifo(fifo)
    with pytest.raises(KafkaStorage):
        log_in(tmp_path)
    assert not marker(tmp_path).exists()
    fifo.unlink()
    assert log_in(tmp_path).recovered == (0,)


def test_one_log_does_not_vouch_for_a_neighbour_that_was_left_by_a_crash(tmp_path):
    (tmp_path / "neighbour-0").mkdir()
    some_log(tmp_path)
    assert not marker(tmp_path).exists()


def test_one_log_keeps_the_word_of_its_neighbours(tmp_path):
    some_log(tmp_path)
    with open_log(str(tmp_path / "neighbour-0"), "a", clock=ManualClock(NOW)) as log:
        log.append_as_leader(produced(size=100))
    assert json.loads(marker(tmp_path).read_text())["milepost"] == {"neighbour-0": [1, 100], "topic-0": [6, 300]}
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\nneighbour 0 1\ntopic 0 6\n"


def test_checkpoints_tell_recovery_point_high_watermark_and_a_log_start_inside_a_segment(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(10))
    log.update_high_watermark(8)
    log.delete_records(5)
    log.close()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\ntopic 0 10\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\ntopic 0 8\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\ntopic 0 5\n"
    assert log_in(tmp_path).start_offset == 5


def test_log_start_at_the_first_segment_needs_no_checkpoint(tmp_path):
    log = log_in(tmp_path)
    log.append_as_leader(produced(10))
    log.close()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_open_log_is_a_public_name():
    assert milepost.open_log is open_log
