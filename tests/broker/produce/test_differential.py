"""Random requests, valid and not, by the frames and by the handler: the same answers, files, counts and reasons in the log.

Two brokers that know nothing of each other get the same bytes in the same pieces, with clocks that stand still and the same random numbers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.broker.produce import handler
from milepost.clock import ManualClock
from milepost.codec.compression import Codec
from milepost.metrics.topic_metrics import BY_TOPIC, TOGETHER
from milepost.net.refusals import Refusals
from milepost.protocol import frames
from milepost.protocol.messages import AddPartitionsToTxnRequest, ApiVersionsRequest, InitProducerIdRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.conftest import SETTINGS
from tests.broker.on_loop import on_loop
from tests.broker.produce.ways import NOW, PRODUCE, request_of, take_way
from tests.broker.talking import Transactional
from tests.broker.topics import create, delete, wanted
from tests.broker.wire import Wire
from tests.golden_log.golden_case import digests

ROUNDS = 60
LAST = 9_999
"""The correlation id of the request that ends a round: its answer, or the end of the connection, comes behind all others."""
TOPICS = {
    "plain": {"partitions": 4},
    "small": {"max_message_bytes": "300"},
    "keyed": {"cleanup_policy": "compact"},
    "packed": {"compression_type": "gzip"},
    "stamped": {"message_timestamp_type": "LogAppendTime"},
    "timely": {"message_timestamp_before_max_ms": "1000"},
    "safe": {"flush_messages": "3"},
    "rolling": {"segment_bytes": "2000", "index_interval_bytes": "100"},
}
PARTITIONS = {name: int(settings.get("partitions", 1)) for name, settings in TOPICS.items()}


@dataclass
class Told:
    """What one broker did, for whoever asks."""

    answers: list[list[bytes]]
    files: dict[str, str]
    counts: dict[str, Any]
    reasons: list[str]
    """Why connections were closed, as it is logged."""
    by_handler: int
    """Requests that came as far as its appends."""


class Client:
    """Makes up requests; the same ones for the same seed."""

    def __init__(self, rng: random.Random, broker: Broker, producer_id: int, writer: Transactional):
        self.rng = rng
        self.ids = {name: broker.cluster.topics[name].topic_id for name in TOPICS}
        self.producer_id = producer_id
        self.writer = writer
        self.sequences: dict[object, int] = {}

    def batch(self, place: object, is_transactional: bool) -> bytes | None:
        rng = self.rng
        if rng.random() < 0.02:
            return rng.choice([None, b"", b"short", bytes(61)])
        count = rng.randrange(1, 4)
        times = [NOW - rng.choice([0, 0, 0, 0, 5000]) + number for number in range(count)]
        key = None if rng.random() < 0.1 else b"k"
        value = rng.randbytes(rng.choice([0, 10, 10, 10, 100, 500]))
        said: dict[str, Any] = {}
        if is_transactional or rng.random() < 0.4:
            sequence = self.sequences.get((place, is_transactional), 0) + rng.choice([0] * 12 + [1, -1, -count])
            self.sequences[place, is_transactional] = sequence + count
            producer = (self.writer.producer_id, self.writer.epoch) if is_transactional else (self.producer_id, 0)
            said = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": max(0, sequence)}
            said["is_transactional"] = is_transactional
        codec = rng.choice([Codec.NONE] * 6 + [Codec.LZ4, Codec.ZSTD, Codec.GZIP, Codec.SNAPPY])
        data = build_batch([Record(i, at, key, value) for i, at in enumerate(times)], base_offset=0, codec=codec, **said)
        if rng.random() < 0.08:
            data = self.damaged(data)
        return data + data if rng.random() < 0.01 else data

    def damaged(self, data: bytes, start: int = 0) -> bytes:
        at = self.rng.randrange(start, len(data))
        return data[:at] + bytes([self.rng.randrange(256)]) + data[at + 1 :]

    def frame(self, number: int, version: int) -> bytes:
        rng = self.rng
        is_transactional = rng.random() < 0.2
        topics = []
        for name in rng.choices([*TOPICS, "plain", "plain", "nowhere", "__consumer_offsets"], k=rng.choice([1, 1, 1, 2, 3])):
            most = PARTITIONS.get(name, 1)
            indexes = rng.sample(range(most), rng.randint(1, most)) + [rng.choice([0, 9])] * (rng.random() < 0.03)
            parts = [(index, self.batch((name, index), is_transactional and name == "plain")) for index in indexes]
            named = self.ids.get(name, rng.randbytes(16)) if version >= 13 else name
            topics.append((named, parts))
        acks = rng.choice([-1] * 12 + [1] * 10 + [0] * 2 + [5])
        if any(named in ("safe", self.ids["safe"]) for named, _ in topics) and acks == -1:
            acks = 1  # else a later request could end the connection before the fsync, or not
        request = request_of(topics, acks, "app" if is_transactional or rng.random() < 0.02 else None)
        name = rng.choice(["c", "c", "another client", None, "x" * 300, "ä"])
        frame = frames.encode_request(PRODUCE, version, number, name, request)
        if rng.random() < 0.05:
            frame = self.damaged(frame, 12)
        return frame


def asked(broker: Broker, client: Client) -> list[bytes]:
    """A round on a connection of its own: all that was answered, until it was closed if it was."""
    rng = client.rng
    last = frames.encode_request(18, 3, LAST, "c", ApiVersionsRequest(client_software_name="n", client_software_version="1"))
    version = rng.randrange(3, 14)
    stream = b"".join(client.frame(number, version) for number in range(rng.randrange(1, 25))) + last
    size = rng.choice([len(stream), len(stream), 300])
    answers = []
    with Wire(broker.bootstrap_servers) as wire:
        try:
            for start in range(0, len(stream), size):
                wire.socket.sendall(stream[start : start + size])
        except ConnectionError:
            pass  # it was closed on what was sent before
        try:
            while not answers or answers[-1][:4] != LAST.to_bytes(4, "big"):
                answers.append(wire.read_frame())
        except ConnectionError:
            pass
    return answers


def added(writer: Transactional) -> None:
    """All of "plain" to its transaction."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=writer.name,
        v3_and_below_producer_id=writer.producer_id,
        v3_and_below_producer_epoch=writer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.V3AndBelowTopic(name="plain", partitions=[0, 1, 2, 3])],
    )
    answer = writer.wire.ask(request, 3).results_by_topic_v3_and_below[0].results_by_partition
    assert [each.partition_error_code for each in answer] == [0] * 4


def counts_of(broker: Broker) -> dict[str, Any]:
    topics = broker.replicas.topic_metrics
    found: dict[str, Any] = {name: getattr(topics, name) for name in TOGETHER}
    found["refused"] = broker.record_examiner.batches_refused
    for name in [*TOPICS, "nowhere"]:
        found |= {f"{name} {attribute}": getattr(topics.of(name), attribute) for attribute in BY_TOPIC}
    for version in range(3, 14):
        meter = broker.request_metrics.meter("Produce", version)
        codes = dict(meter.errors)
        codes[0] = codes.get(0, 0) + meter.successes
        found[f"v{version}"] = (meter.requests, {code: count for code, count in codes.items() if count})
    return found


def run(seed: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    reasons: list[str] = []
    by_handler: list[object] = []
    finish = handler.finish
    monkeypatch.setattr(Refusals, "note", lambda self, peer, reason: reasons.append(reason.replace(str(directory), "DIR")))
    monkeypatch.setattr(handler, "finish", lambda *given: by_handler.append(given) or finish(*given))
    broker = AloneBroker(
        {"log.dirs": str(directory), "transaction.state.log.num.partitions": "1", **SETTINGS},
        clock=ManualClock(NOW),
        rng=random.Random(seed),
    )
    answers: list[list[bytes]] = []
    rng = random.Random(seed)
    with Life(broker), Wire(broker.bootstrap_servers) as wire:
        create(wire, *(wanted(name, **settings) for name, settings in TOPICS.items()))
        producer_id = wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4).producer_id
        writer = Transactional(wire, "app")
        client = Client(rng, broker, producer_id, writer)
        for _ in range(ROUNDS):
            doing = rng.random()
            if doing < 0.5:
                added(writer)
            elif doing < 0.6:
                writer.end(committed=rng.random() < 0.5)
            elif doing < 0.65:
                delete(wire, "keyed")
                create(wire, wanted("keyed", **TOPICS["keyed"]))
                client.ids["keyed"] = broker.cluster.topics["keyed"].topic_id
            answers.append(asked(broker, client))
        counts = on_loop(broker, lambda: counts_of(broker))
    files = {name: digest for name, digest in digests(directory).items() if name.endswith((".log", "index", "snapshot"))}
    named = str(directory).encode()
    answers = [[each.replace(named, b"DIR") for each in round_] for round_ in answers]
    return Told(answers, files, counts, reasons, len(by_handler))


@pytest.fixture
def handled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> Told:
    with monkeypatch.context() as patch:
        take_way("handler", patch)
        return run(seed, tmp_path / "handled", patch)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("way", ["compiled", "pure"])
def test_frames_do_what_the_handler_does(handled, tmp_path, caplog, monkeypatch, way, seed):
    take_way(way, monkeypatch)
    framed = run(seed, tmp_path / "framed", monkeypatch)
    for number, (found, expected) in enumerate(zip(framed.answers, handled.answers, strict=True)):
        assert found == expected, f"round {number}"
    assert framed.counts == handled.counts
    assert framed.reasons == handled.reasons
    assert framed.files == handled.files
    assert not [record for record in caplog.records if record.exc_info]
    assert sum(map(len, handled.answers)) > 300 and len(handled.reasons) > 5 and len(handled.files) > 20
    assert framed.by_handler < 0.7 * handled.by_handler, "the others were taken by the frames"
