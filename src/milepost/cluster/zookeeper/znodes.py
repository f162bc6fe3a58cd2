"""Kafka's znodes: where they are and what is written into them, byte for byte as Kafka 2.4 and 3.9 do.

| path | kind | content |
|---|---|---|
| /controller | ephemeral | `{"version":2,"brokerid":1,"timestamp":"...","kraftControllerEpoch":-1}`; before 3.4 version 1 |
| /controller_epoch | | decimal text; 0 when it is made, 1 for the first controller |
| /brokers/ids/N | ephemeral | address, listeners, rack; its czxid is the broker's epoch. Version 5 has features (2.7), 4 has none |
| /brokers/topics/T | | replicas of each partition; version 3 has the topic's id (2.8), 2 what is added and removed (2.4), 1 neither |
| /brokers/topics/T/partitions/P/state | | leader, epochs, in-sync replicas; its data version is the partition epoch |
| /config/TYPE/NAME | | `{"version":1,"config":{...}}`; `<default>` stands for all |
| /config/changes/config_change_N | sequential | `{"version":2,"entity_path":"topics/T"}` |
| /admin/delete_topics/T | | empty |
| /admin/reassign_partitions, /admin/preferred_replica_election | | what an old tool asks for |
| /isr_change_notification/isr_change_N | sequential | partitions whose state their leader wrote itself (before 2.7) |
| /log_dir_event_notification/log_dir_event_N | sequential | a broker with a failed directory |
| /cluster/id | | `{"version":"1","id":"22 characters"}` |
| /latest_producer_id_block | | the last block of producer ids that was handed out |
| /feature | | `{"features":{},"version":2,"status":1}` (2.7) |
| /milepost/secret | | not Kafka's: `{"version":1,"secret":"base64 of 32 bytes"}`, what brokers prove themselves with |

Keys stand in the order in which Kafka's Scala maps put them: up to four as they were inserted, more by their hash. JSON has no order for
readers, yet equal bytes are easier to compare. What does not parse is None, and is counted (`unreadable`): whoever
reads a znode keeps what was last good.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from milepost.cluster.zookeeper.unreadable import understood
from milepost.replica.metadata import Endpoint

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = "/config/changes/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = "/log_dir_event_notification/log_dir_event_"
CLUSTER_ID = "/cluster/id"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
FEATURE = "/feature"
SECRET = "/milepost/secret"

CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips")
MADE_AT_START = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    "/brokers/seqid",
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"{CONFIG}/{kind}" for kind in CONFIG_TYPES),
)
"""In this order; the nodes above them are made when they are missing."""


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def config_path(kind: str, name: str) -> str:
    return f"{CONFIG}/{kind}/{name}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


# The controller.


def controller(broker_id: int, timestamp: int, *, knows_kraft: bool) -> bytes:
    content: dict[str, Any] = {"version": 2 if knows_kraft else 1, "brokerid": broker_id, "timestamp": str(timestamp)}
    return _json({**content, "kraftControllerEpoch": -1} if knows_kraft else content)


@understood
def controller_id(content: dict[str, Any]) -> int | None:
    found = content["brokerid"]
    return found if isinstance(found, int) else None


# Brokers.


class BrokerNode(NamedTuple):
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


def broker(node: BrokerNode, timestamp: int, *, has_features: bool, jmx_port: int = -1) -> bytes:
    plaintext = next((each for each in node.endpoints if each.security_protocol == "PLAINTEXT"), None)
    content: dict[str, Any] = {"features": {}} if has_features else {}
    content["listener_security_protocol_map"] = {each.listener: each.security_protocol for each in node.endpoints}
    content["endpoints"] = [f"{each.listener}://{each.host}:{each.port}" for each in node.endpoints]
    if node.rack is not None:
        content["rack"] = node.rack
    content["jmx_port"] = jmx_port
    content["port"] = plaintext.port if plaintext else -1
    content["host"] = plaintext.host if plaintext else None
    content["version"] = 5 if has_features else 4
    content["timestamp"] = str(timestamp)
    return _json(content)


@understood
def parse_broker(content: dict[str, Any]) -> BrokerNode:
    if "endpoints" not in content:
        return BrokerNode((Endpoint("PLAINTEXT", "PLAINTEXT", content["host"], int(content["port"])),), content.get("rack"))
    protocols = content.get("listener_security_protocol_map", {})
    endpoints = []
    for text in content["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(Endpoint(listener, protocols.get(listener, listener), host.strip("[]"), int(port)))
    return BrokerNode(tuple(endpoints), content.get("rack"))


# Topics.


class Assignment(NamedTuple):
    """The replicas of one partition; while it is reassigned, those that come and those that go are among them."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.adding)


class TopicNode(NamedTuple):
    partitions: dict[int, Assignment]
    topic_id: str | None = None


def topic(node: TopicNode, version: int) -> bytes:
    content: dict[str, Any] = {"partitions": {str(number): list(each.replicas) for number, each in node.partitions.items()}}
    if version >= 3 and node.topic_id is not None:
        content["topic_id"] = node.topic_id
    if version >= 2:
        content["adding_replicas"] = {str(number): list(each.adding) for number, each in node.partitions.items() if each.adding}
        content["removing_replicas"] = {
            str(number): list(each.removing) for number, each in node.partitions.items() if each.removing
        }
    return _json({**content, "version": version})


@understood
def parse_topic(content: dict[str, Any]) -> TopicNode:
    adding, removing = content.get("adding_replicas", {}), content.get("removing_replicas", {})
    partitions = {
        int(number): Assignment(
            tuple(map(int, replicas)), tuple(map(int, adding.get(number, ()))), tuple(map(int, removing.get(number, ())))
        )
        for number, replicas in content["partitions"].items()
    }
    return TopicNode(partitions, content.get("topic_id"))


class PartitionState(NamedTuple):
    """Who leads a partition. `partition_epoch` is the data version of its znode and is not written into it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int = 0
    is_recovering: bool = False


def state(node: PartitionState) -> bytes:
    content: dict[str, Any] = {
        "controller_epoch": node.controller_epoch,
        "leader": node.leader,
        "version": 1,
        "leader_epoch": node.leader_epoch,
        "isr": list(node.isr),
    }
    return _json({**content, "leader_recovery_state": 1} if node.is_recovering else content)


@understood
def parse_state(content: dict[str, Any], version: int) -> PartitionState:
    return PartitionState(
        int(content["leader"]),
        int(content["leader_epoch"]),
        tuple(map(int, content["isr"])),
        int(content["controller_epoch"]),
        version,
        content.get("leader_recovery_state", 0) == 1,
    )


# Everything else.


def config(settings: Mapping[str, str]) -> bytes:
    return _json({"version": 1, "config": dict(settings)})


@understood
def parse_config(content: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in content["config"].items()}


def config_change(entity_path: str) -> bytes:
    return _json({"version": 2, "entity_path": entity_path})


@understood
def changed_entity(content: dict[str, Any]) -> str | None:
    found = content["entity_path"]
    return found if isinstance(found, str) else None


def partition_list(partitions: Sequence[tuple[str, int]]) -> bytes:
    return _json({"version": 1, "partitions": [{"topic": name, "partition": number} for name, number in partitions]})


@understood
def parse_partition_list(content: dict[str, Any]) -> list[tuple[str, int]]:
    """Of an ISR change notification or a preferred election."""
    return [(str(each["topic"]), int(each["partition"])) for each in content["partitions"]]


@understood
def parse_reassignment(content: dict[str, Any]) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(str(each["topic"]), int(each["partition"])): tuple(map(int, each["replicas"])) for each in content["partitions"]}


def log_dir_event(broker_id: int) -> bytes:
    return _json({"version": 1, "broker": broker_id, "event": 1})


@understood
def failed_broker(content: dict[str, Any]) -> int | None:
    found = content["broker"]
    return found if isinstance(found, int) else None


def cluster_id(text: str) -> bytes:
    return _json({"version": "1", "id": text})


@understood
def parse_cluster_id(content: dict[str, Any]) -> str | None:
    found = content["id"]
    return found if isinstance(found, str) else None


def secret(content: bytes) -> bytes:
    return _json({"version": 1, "secret": b64encode(content).decode()})


@understood
def parse_secret(content: dict[str, Any]) -> bytes:
    return b64decode(content["secret"], validate=True)


def producer_id_block(broker_id: int, start: int, end: int) -> bytes:
    return _json({"version": 1, "broker": broker_id, "block_start": str(start), "block_end": str(end)})


@understood
def parse_producer_id_block(content: dict[str, Any]) -> tuple[int, int]:
    """First and last id of the block that was handed out last."""
    return int(content["block_start"]), int(content["block_end"])


def feature() -> bytes:
    return _json({"features": {}, "version": 2, "status": 1})
