"""Record batches that no honest producer sends: N-23 to N-35. Nothing of them is appended."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import cramjam
import pytest

from milepost.codec.compression import Codec
from milepost.codec.crc32c import crc32c
from milepost.protocol.messages import CreateTopicsRequest, ListOffsetsRequest
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch, build_legacy
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record
from tests.broker.wire import Wire
from tests.hostile.besieged import NOW, fetch, produce

TOPIC, COMPACTED = "targets", "targets-compacted"
RECORDS = [Record(offset, NOW + offset, b"key", b"value %d" % offset) for offset in range(3)]
GOOD = build_batch(RECORDS, base_offset=0)


@pytest.fixture
def wire(broker) -> Iterator[Wire]:
    """A connection to a broker that has the topics; their ends are where they were when the test is over."""
    with broker.wire() as wire:
        topic = CreateTopicsRequest.Topic
        compact = [topic.Config(name="cleanup.policy", value="compact")]
        topics = [
            topic(name=TOPIC, num_partitions=1, replication_factor=1),
            topic(name=COMPACTED, num_partitions=1, replication_factor=1, configs=compact),
        ]
        wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
        before = ends(wire)
        yield wire
        assert ends(wire) == before, "something was appended"


def ends(wire: Wire) -> list[int]:
    topic = ListOffsetsRequest.Topic
    asked = [topic(name=name, partitions=[topic.Partition(partition_index=0, timestamp=-1)]) for name in (TOPIC, COMPACTED)]
    return [found.partitions[0].offset for found in wire.ask(ListOffsetsRequest(topics=asked), 7).topics]


def changed(batch: bytes, *fields: tuple[int, str, int], checksum: bool = True) -> bytes:
    """A batch with other numbers at some places, and the checksum that belongs to it."""
    data = bytearray(batch)
    for at, letter, value in fields:
        struct.pack_into(f">{letter}", data, at, value)
    if checksum:
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def with_payload(payload: bytes, codec: int = 0, count: int = 1, attributes: int = 0) -> bytes:
    """A batch of our own making around any bytes."""
    head = struct.pack(">hiqqqhii", attributes | codec, count - 1, NOW, NOW, -1, -1, -1, count)
    return struct.pack(">qiibI", 0, 9 + len(head) + len(payload), -1, 2, crc32c(head + payload)) + head + payload


def record(body: bytes) -> bytes:
    """A record's body behind its length."""
    assert len(body) < 64
    return bytes([len(body) * 2]) + body


PLAIN = record(b"\0\0\0\2k\2v\0")


def code(wire: Wire, records: bytes | None, topic: str = TOPIC, **fields: Any) -> int:
    return produce(wire, topic, records, **fields).error_code


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
def test_acks(wire, acks):
    assert code(wire, GOOD, acks=acks) == 21


@pytest.mark.parametrize(
    "records",
    [
        None,
        b"",
        GOOD + GOOD,
        changed(GOOD, (16, "b", 0)),
        changed(GOOD, (16, "b", 1)),
        changed(GOOD, (16, "b", 3)),
        changed(GOOD, (16, "b", -1)),
        build_legacy(RECORDS, magic=0),
        build_legacy(RECORDS, magic=1),
    ],
    ids=["null", "none", "two", "magic 0", "magic 1", "magic 3", "magic -1", "set of magic 0", "set of magic 1"],
)
@pytest.mark.parametrize("version", [3, 9])
def test_not_one_batch_of_magic_2(wire, records, version):
    assert code(wire, records, version=version) == 87


def test_every_byte_flipped(wire):
    """Base offset, length and leader epoch lie outside the checksum: the first two are checked apart, the third is the broker's to set."""
    for position in range(len(GOOD)):
        if 12 <= position < 16:
            continue
        flipped = bytearray(GOOD)
        flipped[position] ^= 0x40
        assert code(wire, bytes(flipped)) in (2, 87), position


@pytest.mark.parametrize("length", [-1, 0, 48, 49, len(GOOD) - 13, len(GOOD) - 11, 2**31 - 1, -(2**31)])
def test_batch_length(wire, length):
    assert code(wire, changed(GOOD, (8, "i", length))) in (2, 87)


@pytest.mark.parametrize("cut", [1, 12, 17, 60, 61, len(GOOD) - 1])
def test_batch_that_is_cut(wire, cut):
    assert code(wire, GOOD[:cut]) == 87
    assert code(wire, GOOD + b"\0") == 87


@pytest.mark.parametrize(
    "fields",
    [
        [(57, "i", 4)],
        [(57, "i", 2)],
        [(57, "i", 0)],
        [(57, "i", -1)],
        [(57, "i", 2**31 - 1)],
        [(23, "i", 3)],
        [(23, "i", -1)],
        [(57, "i", 4), (23, "i", 3)],
        [(57, "i", 2), (23, "i", 1)],
        [(57, "i", 2**31 - 1), (23, "i", 2**31 - 2)],
    ],
    ids=["4", "2", "0", "-1", "most", "delta 3", "delta -1", "4 of 3", "2 of 3", "most of 3"],
)
def test_record_count(wire, fields):
    assert code(wire, changed(GOOD, *fields)) == 87


@pytest.mark.parametrize("base", [1, -1, 2**63 - 1, -(2**63)])
def test_base_offset(wire, base):
    assert code(wire, changed(GOOD, (0, "q", base))) == 87


def test_control_batch(wire):
    marker = EndTransactionMarker(ControlType.COMMIT, 0)
    assert code(wire, end_transaction_batch(marker, offset=0, timestamp=0, producer_id=1, producer_epoch=0)) in (48, 87)
    assert code(wire, changed(GOOD, (21, "h", 0x20))) == 87


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([(43, "q", 7), (51, "h", 0)], {87}),
        ([(43, "q", 7), (51, "h", 0), (53, "i", -5)], {87}),
        ([(21, "h", 0x10), (43, "q", 7), (51, "h", 0), (53, "i", 0)], {48}),
        ([(21, "h", 0x10)], {42, 48, 87}),
    ],
    ids=["no sequence", "sequence -5", "transactional without an id", "transactional without a producer"],
)
def test_producer_fields_that_do_not_fit(wire, fields, expected):
    assert code(wire, changed(GOOD, *fields)) in expected


def test_transactional_batch_of_a_transaction_that_nobody_began(wire):
    batch = build_batch(RECORDS, base_offset=0, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    for version in (9, 11, 12):
        assert code(wire, batch, version=version, transactional_id="nobody's") in (48, 49, 120)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codec_that_does_not_exist(wire, codec):
    assert code(wire, changed(GOOD, (21, "h", codec))) == 76


BOMBS = {
    "gzip": (1, lambda size: gzip.compress(bytes(size), 9)),
    "snappy": (2, lambda size: bytes(cramjam.snappy.compress_raw(bytes(size)))),
    "lz4": (3, lambda size: bytes(cramjam.lz4.compress(bytes(size)))),
    "zstd": (4, lambda size: bytes(cramjam.zstd.compress(bytes(size), 19))),
}


@pytest.mark.parametrize("name", BOMBS)
def test_decompression_bomb(broker, wire, name):
    """A quarter of a gigabyte of nothing, or as much of it as fits a message, said to be one record."""
    codec, compress = BOMBS[name]
    size = {"snappy": 16 << 20, "lz4": 160 << 20}.get(name, 256 << 20)
    bomb = compress(size)
    assert len(bomb) < 1_000_000
    before = broker.measure().memory
    assert code(wire, with_payload(bomb, codec)) in (2, 10, 87)
    lying = compress(1 << 20)
    assert code(wire, with_payload(lying, codec, count=2**31 - 1)) in (2, 10, 87)
    assert broker.measure().memory < before + (160 << 20)


def zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        (1, b""),
        (1, b"\x1f\x8b"),
        (1, gzip.compress(PLAIN, mtime=0)[:-1]),
        (1, gzip.compress(PLAIN, mtime=0)[:-8] + bytes(8)),
        (1, zlib.compress(PLAIN)),
        (2, b""),
        (2, b"\xff\xff\xff\xff\x0f"),
        (2, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"\xff\xff\xff\xff"),
        (2, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"\x7f\xff\xff\xff"),
        (2, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"\0\0\0\5ab"),
        (3, b""),
        (3, b"\x04\x22\x4d\x18"),
        (3, lz4(PLAIN)[:6] + b"\0" + lz4(PLAIN)[7:]),
        (3, lz4(PLAIN)[:-4]),
        (3, lz4(PLAIN)[:7] + b"\x7f\xff\xff\x7f" + lz4(PLAIN)[11:]),
        (4, b""),
        (4, b"\x28\xb5\x2f\xfd"),
        (4, b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8 + bytes(3)),
        (4, b"\x28\xb5\x2f\xfd\x00\xff" + bytes(10)),
        (4, b"\x28\xb5\x2f\xfd\x23\x01\x02\x03\x04" + bytes(10)),
        (4, zstd(PLAIN)[:-2]),
        (4, b"\x50\x2a\x4d\x18\xff\xff\xff\x7f"),
        (1, PLAIN),
        (2, PLAIN),
        (3, PLAIN),
        (4, PLAIN),
    ],
)
def test_payload_that_is_not_what_its_codec_says(wire, codec, payload):
    assert code(wire, with_payload(payload, codec)) in (2, 87)


@pytest.mark.parametrize(
    "payload",
    [
        record(b"\0\0\0\2k\2v\0") + b"\0",
        b"\x01" + PLAIN[1:],
        b"\x7e" + PLAIN[1:],
        b"\xff\xff\xff\xff\x0f" + PLAIN[1:],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x80" * 9,
        record(b"\0\0\0\x7ek\2v\0"),
        record(b"\0\0\0\2k\x7ev\0"),
        record(b"\0\0\0\2k\2v\1"),
        record(b"\0\0\0\2k\2v\x7e"),
        record(b"\0\0\0\2k\2v\xfe\xff\xff\xff\x0f"),
        record(b"\0\0\0\2k\2v\2\1\0"),
        record(b"\0\0\0\2k\2v\2\2h\x7e"),
        record(b"\0" + b"\xff" * 10 + b"\0\2k\2v\0"),
        record(b"\0"),
        b"\0",
        b"",
    ],
)
def test_record_bodies(wire, payload):
    assert code(wire, with_payload(payload)) in (2, 87)


@pytest.mark.parametrize(
    "deltas", [b"\2", b"\1", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"], ids=["1", "-1", "most", "least"]
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_offsets_that_a_client_counted_wrong_are_counted_anew(broker, deltas, codec):
    """Kafka does so in compressed batches. The record must not stand behind the end of the log, or before its start."""
    topic = f"counted-{codec}-{deltas.hex()}"
    payload = record(b"\0\0" + deltas + b"\2k\2v\0")
    with broker.wire() as wire:
        wire.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name=topic, num_partitions=1, replication_factor=1)]), 7)
        batch = with_payload(gzip.compress(payload) if codec else payload, codec)
        for _ in range(2):
            assert code(wire, batch, topic) == 0
        fetched = bytes(fetch(wire, topic, 0).records)
    assert [(found.offset, found.key, found.value) for each in iter_batches(fetched) for found in each.records()] == [
        (0, b"k", b"v"),
        (1, b"k", b"v"),
    ]


@pytest.mark.parametrize("payload", [record(b"\0\0\0\3\2v\0"), record(b"\0\0\0\2k\3\0"), record(b"\0\0\0\2k\2v\2\2h\3")])
def test_any_negative_length_of_a_key_or_value_is_null(broker, payload):
    """As Kafka reads them; of a header's key it is an error."""
    topic = f"null-{payload.hex()}"
    with broker.wire() as wire:
        wire.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.Topic(name=topic, num_partitions=1, replication_factor=1)]), 7)
        assert code(wire, with_payload(payload), topic) == 0
        (batch,) = iter_batches(bytes(fetch(wire, topic, 0).records))
        (found,) = batch.records()
    assert None in (found.key, found.value, *(value for _, value in found.headers))


def test_record_of_two_gigabytes_inside_a_compressed_batch(broker, wire):
    before = broker.measure().memory
    for codec, pack in ((1, gzip.compress), (3, lz4), (4, zstd)):
        assert code(wire, with_payload(pack(b"\xfe\xff\xff\xff\x0f" + bytes(1000)), codec)) in (2, 87)
    assert broker.measure().memory < before + (16 << 20)


def test_null_key_to_a_compacted_topic(wire):
    for codec in Codec:
        batch = build_batch([Record(0, NOW, b"k", b"v"), Record(1, NOW, None, b"v")], base_offset=0, codec=codec)
        assert code(wire, batch, COMPACTED) == 87
