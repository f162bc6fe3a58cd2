"""A long conversation about transactions gets the answers that Kafka 4.3.0 gave, one by one.

`transactions-kafka-4.3.0.txt` holds them; the tests that ask a real Kafka show that it still says so. Left out of the conversation, because
Kafka's answers are mistakes of its own: a Produce 12 at transaction.version 0 leaves its transactional id unusable, and a marker
with epoch -1 gets UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.peers import EverybodyIsABroker
from tests.broker.transaction_conversation import PARTS
from tests.broker.transaction_talk import Talk
from tests.interop.kraft_broker import KraftBroker

RECORDED = Path(__file__).with_name("transactions-kafka-4.3.0.txt")
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
LONG = {"last_epochs"}
# Kafka without an authorizer takes any marker from anybody, milepost only from brokers of the cluster.
OF_COORDINATORS = {"markers"}


def recorded() -> dict[str, list[str]]:
    """The lines of each part; a part begins with its name in brackets."""
    parts: dict[str, list[str]] = {}
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            lines = parts[line.strip("[]")] = []
        else:
            lines.append(line)
    return parts


def said(bootstrap_servers: str, part: str) -> list[str]:
    talk = Talk(bootstrap_servers)
    try:
        PARTS[part](talk)
    finally:
        talk.close()
    return talk.lines


def parts(*, long: bool) -> list[str]:
    return [part for part in PARTS if (part in LONG) == long]


def test_every_part_is_recorded():
    assert list(recorded()) == list(PARTS)


@pytest.mark.parametrize("part", parts(long=False))
def test_a_conversation_gets_the_answers_of_kafka(brokers, part):
    broker = brokers.start(SETTINGS)
    if part in OF_COORDINATORS:
        broker.topology = broker.topology._replace(peers=EverybodyIsABroker())
    assert said(broker.bootstrap_servers, part) == recorded()[part]


@pytest.mark.trouble
@pytest.mark.parametrize("part", parts(long=True))
def test_a_long_conversation_gets_the_answers_of_kafka(brokers, part):
    assert said(brokers.start(SETTINGS).bootstrap_servers, part) == recorded()[part]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftBroker]:
    with KraftBroker(tmp_path_factory.mktemp("kafka"), SETTINGS) as kafka:
        yield kafka


@pytest.mark.kafka
@pytest.mark.parametrize("part", parts(long=False))
def test_kafka_still_answers_so(kafka, part):
    assert said(kafka.bootstrap, part) == recorded()[part]


@pytest.mark.kafka
@pytest.mark.trouble
@pytest.mark.parametrize("part", parts(long=True))
def test_kafka_still_answers_the_long_conversation_so(kafka, part):
    assert said(kafka.bootstrap, part) == recorded()[part]
