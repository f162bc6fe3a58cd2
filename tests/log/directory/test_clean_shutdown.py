"""The marker of a clean stop."""

from __future__ import annotations

import json
import logging

import pytest

from milepost.files import Disk
from milepost.log.directory.clean_shutdown import CleanShutdown, read_clean_shutdown, write_clean_shutdown
from milepost.topic_partition import TopicPartition

VISITS = TopicPartition("page_visits", 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".kafka_cleanshutdown"


def test_marker_says_what_it_stands_for(path):
    marker = CleanShutdown(-1, {"page_visits-0": (1250, 91873), "a-1": (0, 0)})
    write_clean_shutdown(Disk(), str(path), marker)
    assert path.read_bytes() == b'{"version":0,"brokerEpoch":-1,"milepost":{"a-1":[0,0],"page_visits-0":[1250,91873]}}'
    assert read_clean_shutdown(Disk(), str(path)) == marker


def test_marker_without_partitions_is_kafkas(path):
    write_clean_shutdown(Disk(), str(path), CleanShutdown(7))
    assert path.read_bytes() == b'{"version":0,"brokerEpoch":7}'


@pytest.mark.parametrize(
    ("content", "epoch"), [(b"", -1), (b'{"version":0,"brokerEpoch":42}', 42), (b'{"version":1,"new":[]}', -1)]
)
def test_marker_of_kafka_is_believed(path, content, epoch):
    path.write_bytes(content)
    marker = read_clean_shutdown(Disk(), str(path))
    assert marker.broker_epoch == epoch
    assert marker.agrees(VISITS, 1250, 91873)


def test_missing_marker_is_no_clean_stop(path):
    assert read_clean_shutdown(Disk(), str(path)) is None


@pytest.mark.parametrize(
    "content",
    [
        b"\0\0\0\0",
        b'{"version":0,"brokerEpoch":-1,"milep',
        b"[]",
        b"7",
        b'{"brokerEpoch":"x"}',
        b'{"milepost":7}',
        b'{"milepost":{"a-0":[1]}}',
        b'{"milepost":{"a-0":["x",2]}}',
        b'{"milepost":{"a-0":null}}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_content_that_nobody_wrote_is_no_clean_stop(path, content, caplog):
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING, logger="milepost.log"):
        assert read_clean_shutdown(Disk(), str(path)) is None
    assert ".kafka_cleanshutdown" in caplog.text


@pytest.mark.parametrize(
    ("tp", "end", "size", "agrees"),
    [
        (VISITS, 1250, 91873, True),
        (VISITS, None, 91873, True),
        (VISITS, 1250, 91872, False),
        (VISITS, 1249, 91873, False),
        (VISITS, None, 0, False),
        (TopicPartition("page_visits", 1), 1250, 91873, False),
    ],
)
def test_marker_agrees_with_the_logs_it_was_written_for(tp, end, size, agrees):
    assert CleanShutdown(-1, {"page_visits-0": (1250, 91873)}).agrees(tp, end, size) is agrees


def test_kafka_reads_our_marker_as_its_own(path):
    """It takes two fields and ignores the others."""
    write_clean_shutdown(Disk(), str(path), CleanShutdown(5, {"a-0": (1, 2)}))
    content = json.loads(path.read_bytes())
    assert (content["version"], content["brokerEpoch"]) == (0, 5)
