"""The same requests that were recorded with Kafka 4.3.0, byte for byte, get the same answers here.

Before each, the broker gets what Kafka had then, as far as its answer tells: topics, records, settings, quotas. Not compared: the
words of messages, ids, sizes and addresses, and the order in which Kafka's maps happened to be. Settings that only one of the two
knows are left out as well; of the others two differ: `message.timestamp.after.max.ms`, which has no limit here, and the source of
`min.insync.replicas`, which KRaft stores for all brokers.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest

from milepost.protocol import frames
from milepost.protocol.messages import AlterClientQuotasRequest
from tests.broker.peers import EverybodyIsABroker
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire
from tests.golden_wire_fixture import examples, recordings
from tests.protocol.kafka_json import as_kafka_json

ADMIN = (19, 20, 21, 23, 27, 32, 33, 34, 35, 37, 43, 44, 46, 48, 49, 57, 60, 75)
INCIDENTAL = {"errorMessage", "topicId", "partitionSize", "totalBytes", "usableBytes", "logDir", "clusterId", "port", "configs"}
OTHERWISE = {"message.timestamp.after.max.ms": "value", "min.insync.replicas": "configSource"}


def recorded() -> list[Any]:
    cases = []
    for path in recordings("clients"):
        key, name = path.rpartition("/")[2].removesuffix(".json").split("-", 1)
        if int(key) in ADMIN:
            found = [example for example in examples("clients", path) if example["kafka"] == "4.3.0"]
            for number, example in enumerate(found):
                title = f"{name}-{example['apiVersion']}-{example['client']}-{number}"
                cases.append(pytest.param(int(key), example, id=title))
    return cases


def prepare(wire: Wire, key: int, request: dict[str, Any], response: dict[str, Any]) -> None:
    """What Kafka must have had to answer like this."""
    partitions: dict[str, int] = {}
    configs: dict[str, dict[str, str]] = {}
    if key == 19:
        partitions = {topic["name"]: 1 for topic in response["topics"] if topic["errorCode"] == 36}
    elif key == 20:
        partitions = {topic["name"]: 1 for topic in response["responses"] if topic["errorCode"] == 0}
    elif key in (21, 27, 34, 43):
        lists = request.get("dirs") or request.get("markers") or [request]
        asked = lists[0].get("topics") or lists[0]["topicPartitions"]
        partitions = {topic.get("name") or topic["topic"]: 3 for topic in asked}
    elif key == 23:
        partitions = {topic["topic"]: 3 for topic in response["topics"] if topic["partitions"][0]["errorCode"] == 0}
    elif key == 32:
        for result in response["results"]:
            if result["errorCode"] == 0:
                own = {config["name"]: config["value"] for config in result["configs"] if config["configSource"] == 1}
                partitions[result["resourceName"]], configs[result["resourceName"]] = 1, own
    elif key in (33, 44):
        partitions = {each["resourceName"]: 1 for each in response["responses"] if each["errorCode"] != 3}
    elif key == 35:
        partitions = {topic["name"]: len(topic["partitions"]) for topic in response["results"][0]["topics"]}
    elif key == 37:
        counts = {topic["name"]: topic["count"] for topic in request["topics"]}
        growing = [result for result in response["results"] if result["errorCode"] != 3]
        partitions = {each["name"]: 3 if each["errorCode"] else counts[each["name"]] - 1 for each in growing}
    elif key == 75:
        partitions = {topic["name"]: len(topic["partitions"]) for topic in response["topics"] if topic["errorCode"] == 0}
    if partitions:
        settings = {name: {key.replace(".", "_"): value for key, value in given.items()} for name, given in configs.items()}
        create(wire, *(wanted(name, count, **settings.get(name, {})) for name, count in partitions.items()))
    if key == 21:
        produce(wire, request["topics"][0]["name"], [b"v"] * 3, 2)
    elif key == 23:
        for topic in response["topics"]:
            for part in topic["partitions"]:
                if part["endOffset"] > 0:
                    produce(wire, topic["topic"], [b"v"] * part["endOffset"], part["partition"])
    elif key == 48:
        store_quotas(wire, response["entries"])


def store_quotas(wire: Wire, entries: list[dict[str, Any]]) -> None:
    entry = AlterClientQuotasRequest.Entry
    asked = [
        entry(
            entity=[entry.Entity(entity_type=part["entityType"], entity_name=part["entityName"]) for part in each["entity"]],
            ops=[entry.Op(key=quota["key"], value=quota["value"]) for quota in each["values"]],
        )
        for each in entries
    ]
    wire.ask(AlterClientQuotasRequest(entries=asked), 0)


def essential(value: Any) -> Any:
    """Without what is incidental, and lists in an order of their own."""
    if isinstance(value, dict):
        return {key: essential(each) for key, each in value.items() if key not in INCIDENTAL}
    if isinstance(value, list):
        return sorted(map(essential, value), key=repr)
    return value


def settings(value: Any) -> list[dict[str, dict[str, Any]]]:
    """The settings in an answer, of each topic by name, as far as they should be the same."""
    if isinstance(value, list):
        return [found for each in value for found in settings(each)]
    if not isinstance(value, dict):
        return []
    if value.get("configs"):
        known = {config["name"]: config for config in value["configs"]}
        return [
            {
                name: {key: each for key, each in config.items() if key not in ("synonyms", OTHERWISE.get(name))}
                for name, config in known.items()
            }
        ]
    return settings(list(value.values()))


WRITE_TXN_MARKERS = 27


@pytest.mark.parametrize(("key", "example"), recorded())
def test_recorded_request_gets_kafkas_answer(brokers, key, example):
    broker = brokers.start({"node.id": "1"})
    if key == WRITE_TXN_MARKERS:
        # The markers were taken as a coordinator's; from others ours takes less (docs/deviations.md).
        broker.topology = broker.topology._replace(peers=EverybodyIsABroker())
    version, expected = example["apiVersion"], example["responseJson"]
    with Wire(broker.bootstrap_servers) as wire:
        prepare(wire, key, example["requestJson"], expected)
        frame = bytes.fromhex(example["requestHex"])
        wire.socket.sendall(struct.pack(">i", len(frame)) + frame)
        answer = wire.read_frame()
    assert answer[:4] == frame[4:8] == bytes.fromhex(example["responseHex"])[:4], "the correlation id"
    found = as_kafka_json(frames.decode_response(key, version, answer)[1], version)
    assert essential(found) == essential(expected)
    ours, theirs = settings(found), settings(expected)
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        assert {name: our.get(name) for name in their} == their
