"""`partition.metadata`: the id of a partition's topic."""

from __future__ import annotations

import random

import pytest

from milepost.errors import InconsistentTopicId, KafkaStorage
from milepost.files import Disk
from milepost.log.directory.partition_metadata import (
    PartitionMetadata,
    ensure_topic_id,
    random_topic_id,
    read_partition_metadata,
    topic_id_bytes,
    topic_id_text,
    write_partition_metadata,
)
from tests.golden_fixture import all_partitions

TOPIC_ID = "wMqjoNGDSsigvsDMoKh2dg"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "partition.metadata"


def test_file_has_two_lines_and_no_last_newline(path):
    write_partition_metadata(Disk(), str(path), TOPIC_ID)
    assert path.read_bytes() == b"version: 0\ntopic_id: wMqjoNGDSsigvsDMoKh2dg"
    assert read_partition_metadata(Disk(), str(path)) == PartitionMetadata(TOPIC_ID, 0)


def test_missing_file_is_no_topic_id(path):
    assert read_partition_metadata(Disk(), str(path)) is None


@pytest.mark.parametrize("content", [f"version: 0\ntopic_id: {TOPIC_ID}\n", f"topic_id:   {TOPIC_ID}\r\nversion: 3"])
def test_other_spellings_are_read(path, content):
    path.write_text(content)
    assert read_partition_metadata(Disk(), str(path)).topic_id == TOPIC_ID


@pytest.mark.parametrize(
    "content",
    [
        b"version: 0",
        b"version: 0\n",
        f"topic_id: {TOPIC_ID}".encode(),
        f"version: -1\ntopic_id: {TOPIC_ID}".encode(),
        f"version: x\ntopic_id: {TOPIC_ID}".encode(),
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: 0\ntopic_id: short",
        b"version: 0\ntopic_id: wMqjoNGDSsigvsDMoKh2d!",
        b"version: 0\ntopic_id: wMqjoNGDSsigvsDMoKh2dg==",
        b"version 0\ntopic_id wMqjoNGDSsigvsDMoKh2dg",
        b"version: 0: 1\ntopic_id: wMqjoNGDSsigvsDMoKh2dg",
        b"\xff\xff\xff",
    ],
)
def test_damaged_file_is_refused_by_name(path, content):
    path.write_bytes(content)
    with pytest.raises(KafkaStorage, match=r"partition\.metadata: "):
        read_partition_metadata(Disk(), str(path))


def test_file_cut_at_any_byte_is_refused(path):
    whole = f"version: 0\ntopic_id: {TOPIC_ID}".encode()
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(KafkaStorage):
            read_partition_metadata(Disk(), str(path))


@pytest.mark.parametrize("content", [b"", bytes(43)])
def test_file_whose_content_was_lost_in_a_power_failure_counts_as_absent_and_is_written_again(path, content):
    path.write_bytes(content)
    assert read_partition_metadata(Disk(), str(path)) is None
    ensure_topic_id(Disk(), str(path), TOPIC_ID)
    assert read_partition_metadata(Disk(), str(path)).topic_id == TOPIC_ID


def test_file_that_is_synced_later_is_there_at_once(path):
    ensure_topic_id(Disk(), str(path), TOPIC_ID, sync=False)
    assert path.read_text() == f"version: 0\ntopic_id: {TOPIC_ID}"


def test_topic_id_is_written_where_there_is_none_and_compared_where_there_is_one(path):
    ensure_topic_id(Disk(), str(path), TOPIC_ID)
    ensure_topic_id(Disk(), str(path), TOPIC_ID)
    with pytest.raises(InconsistentTopicId, match="belongs to topic id wMqjoNGDSsigvsDMoKh2dg, expected IkQ7dEfCSTGDZ0gFhcQOug"):
        ensure_topic_id(Disk(), str(path), "IkQ7dEfCSTGDZ0gFhcQOug")


def test_id_is_the_url_safe_base64_of_sixteen_bytes():
    assert topic_id_text(bytes(range(240, 256))) == "8PHy8_T19vf4-fr7_P3-_w"
    assert topic_id_bytes("8PHy8_T19vf4-fr7_P3-_w", "here") == bytes(range(240, 256))


def test_random_ids_are_uuids_of_version_4_that_no_tool_takes_for_an_option():
    rng = random.Random(1)
    ids = [random_topic_id(rng) for _ in range(500)]
    assert len(set(ids)) == 500
    assert not any(text.startswith("-") for text in ids)
    assert {topic_id_bytes(text, "here")[6] >> 4 for text in ids} == {4}
    assert {topic_id_bytes(text, "here")[8] >> 6 for text in ids} == {2}


@pytest.mark.parametrize(("case", "partition"), list(all_partitions("transactions", "leader_epochs", "replication")))
def test_topic_ids_of_real_brokers(golden, case, partition):
    expected = golden.expected(case, partition).get("partitionMetadata")
    found = read_partition_metadata(Disk(), str(golden.partition(case, partition) / "partition.metadata"))
    assert (found and {"version": str(found.version), "topic_id": found.topic_id}) == expected
