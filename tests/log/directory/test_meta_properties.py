"""`meta.properties`: both versions, as Kafka writes them and as we do."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.log.directory.meta_properties import MetaProperties, java_date, read_meta_properties, write_meta_properties
from tests.golden_fixture import all_cases, kafka_version

ZOOKEEPER = b"#\n#Sun Nov 15 09:36:27 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=96bEgRTsTz2rgy_E1VaAEw\n"
KRAFT = (
    b"#\n#Sun Nov 15 09:39:22 UTC 2026\nnode.id=1\ndirectory.id=s1mfRaIxkIwHIe5FvyuebA\nversion=1\n"
    b"cluster.id=0mIeVJWDR22aH5ncROPoUw\n"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "meta.properties"


def read(path, content: bytes) -> MetaProperties | None:
    path.write_bytes(content)
    return read_meta_properties(Disk(), str(path))


def test_file_of_zookeeper_times(path):
    meta = read(path, ZOOKEEPER)
    assert meta == MetaProperties(0, "96bEgRTsTz2rgy_E1VaAEw", 1, None)
    assert meta.broker_id == 1


def test_file_of_kraft(path):
    assert read(path, KRAFT) == MetaProperties(1, "0mIeVJWDR22aH5ncROPoUw", 1, "s1mfRaIxkIwHIe5FvyuebA")


def test_missing_file_is_no_identity(path):
    assert read_meta_properties(Disk(), str(path)) is None


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"version=0\n"])
def test_version_0_needs_nothing(path, content):
    assert read(path, content) == MetaProperties(0, None, None, None)


def test_key_may_end_in_a_colon_and_a_value_may_be_escaped(path):
    assert read(path, b"! comment\nversion : 0\ncluster.id: a\\:b\\u0041\nbroker.id 7\n") == MetaProperties(0, "a:bA", 7, None)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"version=2\n", "version 2, only 0 and 1 are known"),
        (b"version=x\n", "version='x' is not a number"),
        (b"version=1\nnode.id=1\n", "version 1 without cluster.id"),
        (b"version=1\ncluster.id=a\n", "version 1 without node.id"),
        (b"version=1\ncluster.id=a\nbroker.id=1\n", "version 1 without node.id"),
        (b"version=0\nbroker.id=one\n", "broker.id='one' is not a number"),
        (b"version=0\ncluster.id=\\u00\n", r"\\u needs four"),
    ],
)
def test_damaged_file_is_refused(path, content, sentence):
    with pytest.raises(KafkaStorage, match=f"meta.properties.*{sentence}"):
        read(path, content)


def test_written_file_looks_like_kafkas(path):
    clock = ManualClock(1794735387000)
    write_meta_properties(Disk(), str(path), MetaProperties(0, "96bEgRTsTz2rgy_E1VaAEw", 1), clock)
    assert path.read_bytes() == b"#\n#Sun Nov 15 09:36:27 UTC 2026\nversion=0\ncluster.id=96bEgRTsTz2rgy_E1VaAEw\nbroker.id=1\n"


@pytest.mark.parametrize(
    "meta",
    [
        MetaProperties(0, None, None, None),
        MetaProperties(0, "c", 3, "d"),
        MetaProperties(1, "0mIeVJWDR22aH5ncROPoUw", 2147483647, "s1mfRaIxkIwHIe5FvyuebA"),
        MetaProperties(1, " a=b:c#d!e\\f\u00e9\n", 0, None),
    ],
)
def test_written_file_is_read_again(path, meta):
    write_meta_properties(Disk(), str(path), meta, ManualClock(0))
    assert read_meta_properties(Disk(), str(path)) == meta


def test_date_is_written_as_java_does():
    assert java_date(0) == "Thu Jan 01 00:00:00 UTC 1970"
    assert java_date(1794735387999) == "Sun Nov 15 09:36:27 UTC 2026"


def test_other_cluster_or_broker_is_refused():
    meta = MetaProperties(1, "ours", 1, None)
    meta.ensure_same("here", "ours", 1)
    meta.ensure_same("here")
    with pytest.raises(KafkaStorage, match="here: the directory belongs to cluster ours, expected theirs"):
        meta.ensure_same("here", "theirs", 1)
    with pytest.raises(KafkaStorage, match="here: the directory belongs to broker 1, expected 2"):
        meta.ensure_same("here", "ours", 2)
    MetaProperties(0, None, None).ensure_same("here", "ours", 1)


@pytest.mark.parametrize("case", all_cases())
def test_identity_of_real_brokers(golden, case):
    meta = read_meta_properties(Disk(), str(golden(case) / "logdir" / "meta.properties"))
    assert meta.version == (1 if kafka_version(case) == "4.3.0" else 0)
    assert meta.node_id is not None
    assert len(meta.cluster_id) == 22
    assert (meta.directory_id is None) == (meta.version == 0)
