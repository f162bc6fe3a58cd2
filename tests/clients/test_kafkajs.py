"""KafkaJS: `kafkajs/client.js` does what its users do and prints what it sees. Its codecs but gzip are packages of others."""

from __future__ import annotations

from tests.clients.client import Client, pinned
from tests.clients.programs import HERE, Seen, expected, node_program, run, stored_as_sent
from tests.clients.situations import CONSUMER_PROTOCOL, covers

LACKS = {CONSUMER_PROTOCOL: "it has the classic protocol only"}
CLIENTS = [Client("KafkaJS", "JavaScript", pinned(HERE / "kafkajs/package.json", "kafkajs"))]


def see(bootstrap: str, prefix: str) -> Seen:
    command, environment = node_program("kafkajs")
    return run([*command, bootstrap, prefix], {**environment, "KAFKAJS_NO_PARTITIONER_WARNING": "1"})


@covers(*expected(LACKS))
def test_kafkajs_sees_what_it_would_see_of_kafka(served, compare):
    compare(*see(served.bootstrap, "kafkajs-"), LACKS)
    stored_as_sent(served, "kafkajs-", LACKS)
