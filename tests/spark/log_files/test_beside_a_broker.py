"""Files of a broker that runs: what it has told its clients holds here with its next checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import milepost
from milepost.errors import OffsetOutOfRange
from tests.spark.rows import read_rows
from tests.waiting import PATIENCE, until


def offsets(data: Path, start: int) -> tuple[int, int]:
    rows = read_rows({"path": data, "subscribe": "t", "endOfLog": "logEnd", "startingOffsets": json.dumps({"t": {"0": start}})})
    return rows[0]["offset"], rows[-1]["offset"]


def test_records_below_a_start_that_was_moved_are_gone_with_the_next_checkpoint_of_starts(tmp_path: Path) -> None:
    with milepost.Broker(tmp_path, config={"log.flush.start.offset.checkpoint.interval.ms": 50}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all", "log_level": 0})
        for number in range(1000):
            producer.produce("t", b"%d" % number)
        assert producer.flush(PATIENCE) == 0
        assert offsets(tmp_path, 500) == (500, 999)
        beginning = TopicPartition("t", 0, 700)
        admin.delete_records([beginning])[beginning].result(PATIENCE)
        starts = tmp_path / "log-start-offset-checkpoint"
        until(lambda: starts.exists() and "t 0 700" in starts.read_text().splitlines())
        with pytest.raises(OffsetOutOfRange, match=r"data loss: t-0: .*500.*700"):
            offsets(tmp_path, 500)
        assert offsets(tmp_path, 700) == (700, 999)
