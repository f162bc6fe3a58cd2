"""Apache Kafka 4.3.0, seen by the same programs: what the tests of the other files expect is what Kafka does."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.clients import test_franz_go, test_java_client, test_kafkajs, test_rdkafka, test_sarama
from tests.clients.served import SETTINGS
from tests.interop.kraft_broker import KraftBroker

pytestmark = [pytest.mark.kafka, pytest.mark.trouble]
# Kafka lets a group heartbeat as often as the tests want only when told so.
OFTEN = {"group.consumer.min.heartbeat.interval.ms": "100"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KraftBroker]:
    with KraftBroker(tmp_path_factory.mktemp("kafka"), {**SETTINGS, **OFTEN}) as running:
        yield running


PROGRAMS = [test_franz_go, test_java_client, test_kafkajs, test_rdkafka, test_sarama]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda module: module.CLIENTS[0].title)
def test_kafka_shows_what_we_expect(kafka: KraftBroker, compare, program: ModuleType):
    """Kafka hears of what its controller did a moment later; a client that asked too early asks once more."""
    name = program.__name__.rpartition("test_")[2]
    try:
        compare(*program.see(kafka.bootstrap, f"{name}-"), program.LACKS)
    except AssertionError:
        compare(*program.see(kafka.bootstrap, f"{name}-again-"), program.LACKS)
