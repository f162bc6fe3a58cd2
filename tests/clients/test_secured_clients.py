"""Clients that nobody here wrote, over every protocol and mechanism, with the right secret and with a wrong one."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from tests.broker import secured
from tests.clients.java_tools import JavaTools
from tests.security.certificates import authority

pytestmark = pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated")  # kafka-python

RECORDS = [b"v%d" % number for number in range(50)] + [b"x" * 300_000]
LOGINS = [
    ("PLAINTEXT", None),
    ("SSL", None),
    *((f"SASL_{layer}", mechanism) for layer in ("PLAINTEXT", "SSL") for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
]
SECRET = {"PLAIN": ("alice", "a secret"), "SCRAM-SHA-256": ("bob", "b secret"), "SCRAM-SHA-512": ("bob", "b secret")}


class Served:
    """A broker that all of these connect to."""

    def __init__(self, broker, directory: Path):
        self.broker = broker
        self.trusted = directory / "authority.pem"
        self.trusted.write_text(authority().pem)
        self.directory = directory

    def address(self, protocol: str) -> str:
        return secured.address(self.broker, protocol)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("secured")
    given = {
        "log.dirs": str(directory / "data"),
        "group.initial.rebalance.delay.ms": "0",
        "connection.failed.authentication.delay.ms": "0",
        **secured.settings(directory),
    }
    with Life(AloneBroker(given)) as broker:
        made = Served(broker, directory)
        admin = AdminClient({"bootstrap.servers": made.address("PLAINTEXT")})
        passwords = [
            UserScramCredentialUpsertion("bob", ScramCredentialInfo(mechanism, 4096), b"b secret")
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for future in admin.alter_user_scram_credentials(passwords).values():
            future.result()
        yield made


def topic_of(client: str, protocol: str, mechanism: str | None) -> str:
    return f"{client}.{protocol}.{mechanism}"


def librdkafka(served: Served, protocol: str, mechanism: str | None, password: str | None = None) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap.servers": served.address(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(served.trusted),
        "log_level": 0,
    }
    if mechanism is not None:
        user, right = SECRET[mechanism]
        settings |= {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password or right}
    return settings


@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
def test_librdkafka_writes_and_reads(served, protocol, mechanism):
    topic = topic_of("librdkafka", protocol, mechanism)
    settings = librdkafka(served, protocol, mechanism)
    producer = Producer(settings)
    failures: list[KafkaError] = []
    for value in RECORDS:
        producer.produce(topic, value, on_delivery=lambda error, message: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failures == []
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    with contextlib.closing(consumer):
        consumer.subscribe([topic])
        read: list[bytes] = []
        while len(read) < len(RECORDS):
            read += [message.value() for message in consumer.consume(len(RECORDS), 1.0) if message.error() is None]
    assert read == RECORDS


@pytest.mark.parametrize(("protocol", "mechanism"), [each for each in LOGINS if each[1]])
def test_librdkafka_is_told_of_a_wrong_password(served, protocol, mechanism):
    told: list[KafkaError] = []
    settings = librdkafka(served, protocol, mechanism, "a guess")
    producer = Producer({**settings, "error_cb": told.append})
    producer.produce("never", b"v")
    while not told:
        producer.poll(0.1)
    assert told[0].code() == KafkaError._AUTHENTICATION
    assert f"invalid credentials with SASL mechanism {mechanism}" in told[0].str()
    producer.purge()
    producer.flush(10)
    assert "never" not in served.broker.cluster.topics


def kafka_python(served: Served, protocol: str, mechanism: str | None) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap_servers": served.address(protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(served.trusted),
    }
    if mechanism is not None:
        user, password = SECRET[mechanism]
        settings |= {"sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": password}
    return settings


@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
def test_kafka_python_writes_and_reads(served, protocol, mechanism):
    import kafka

    topic = topic_of("kafka-python", protocol, mechanism)
    settings = kafka_python(served, protocol, mechanism)
    with contextlib.closing(kafka.KafkaProducer(**settings)) as producer:
        for value in RECORDS:
            producer.send(topic, value)
        producer.flush(60)
    consumer = kafka.KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    with contextlib.closing(consumer):
        read = [next(consumer).value for _ in RECORDS]
    assert read == RECORDS


@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
def test_aiokafka_writes_and_reads(served, protocol, mechanism):
    import aiokafka

    topic = topic_of("aiokafka", protocol, mechanism)
    settings = kafka_python(served, protocol, mechanism)
    del settings["ssl_cafile"]
    if protocol.endswith("SSL"):
        settings["ssl_context"] = ssl.create_default_context(cafile=str(served.trusted))

    async def run() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            for value in RECORDS:
                await producer.send_and_wait(topic, value)
        async with aiokafka.AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
            return [(await asyncio.wait_for(consumer.getone(), 60)).value for _ in RECORDS]

    assert asyncio.run(run()) == RECORDS


# Java.


@pytest.fixture(scope="module", params=["3.9.1", "4.3.0"])
def java(request, served, tmp_path_factory) -> Iterator[JavaTools]:
    tools = JavaTools(request.param, served.address("PLAINTEXT"), tmp_path_factory.mktemp("java") / "errors")
    with contextlib.closing(tools):
        yield tools


def java_properties(served: Served, protocol: str, mechanism: str | None, password: str | None = None) -> str:
    lines = [f"security.protocol={protocol}", "ssl.truststore.type=PEM", f"ssl.truststore.location={served.trusted}"]
    if mechanism is not None:
        user, right = SECRET[mechanism]
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        module = f"org.apache.kafka.common.security.{kind}LoginModule"
        lines.append(f"sasl.mechanism={mechanism}")
        lines.append(f'sasl.jaas.config={module} required username="{user}" password="{password or right}";')
    path = served.directory / f"{protocol}.{mechanism}.{password}.properties"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.kafka
@pytest.mark.parametrize(("protocol", "mechanism"), LOGINS)
def test_java_writes_and_reads(served, java, protocol, mechanism):
    topic = topic_of(f"java-{java.version}", protocol, mechanism)
    file = java_properties(served, protocol, mechanism)
    to_broker = ["--bootstrap-server", served.address(protocol)]
    older = java.version == "3.9.1"
    producing, consuming = ("--producer.config", "--consumer.config") if older else ("--command-config", "--command-config")
    given = "".join(f"v{number}\n" for number in range(200))
    java.ask("console-producer", *to_broker, "--topic", topic, producing, file, given=given)
    limits = ["--from-beginning", "--max-messages", "200", "--timeout-ms", "60000"]
    assert java.ask("console-consumer", *to_broker, "--topic", topic, consuming, file, *limits) == given


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_java_is_told_of_a_wrong_password(served, java, mechanism):
    file = java_properties(served, "SASL_SSL", mechanism, "a guess")
    with pytest.raises(AssertionError, match=f"invalid credentials with SASL mechanism {mechanism}"):
        java.ask("topics", "--bootstrap-server", served.address("SASL_SSL"), "--command-config", file, "--list")


@pytest.mark.kafka
def test_kafka_configs_makes_users_who_can_log_in(served, java):
    user = f"carol-{java.version}"
    password = "SCRAM-SHA-256=[iterations=8192,password=c secret],SCRAM-SHA-512=[password=c secret]"
    named = ["--entity-type", "users", "--entity-name", user]
    java.run("configs", "--alter", *named, "--add-config", password)
    described = java.run("configs", "--describe", *named)
    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    settings = {**librdkafka(served, "SASL_SSL", "SCRAM-SHA-512"), "sasl.username": user, "sasl.password": "c secret"}
    assert AdminClient(settings).list_topics(timeout=60).brokers
    java.run("configs", "--alter", *named, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    assert "SCRAM" not in java.run("configs", "--describe", *named)
