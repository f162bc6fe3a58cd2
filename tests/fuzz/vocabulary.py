"""Words that mean something to a broker: for each field name values that handlers look at, and what earlier answers gave.

A request filled with these gets past the first check of a handler, and often past the second. What belongs together is kept
together: a member with its group and generation, a producer with its transactional id, a fetch session with its next epoch.
"""

from __future__ import annotations

import random
from typing import Any

from milepost.protocol.message import Message
from milepost.protocol.schema import Field

TOPICS = ["plain", "compacted", "many", "small"]
CONFIGS = ["retention.ms", "cleanup.policy", "max.message.bytes", "compression.type", "segment.bytes", "nope"]
ODD_NAMES = [
    *("", ".", "..", "../../x", "a/b", "a\0b", "a\nb", "-", "x" * 249, "x" * 250, "é中\u202e"),
    *("__consumer_offsets", "__transaction_state", "__cluster_metadata"),
]
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
KINDS: dict[str, type] = {"string": str, "bytes": bytes, "uuid": bytes, "bool": bool, "float64": float}

# Fields that go by several names.
ALIASES = {
    **dict.fromkeys(("topics", "topic_name", "topic_names", "subscribed_topic_names", "name"), "topic"),
    **dict.fromkeys(("groups", "groups_names", "group_ids"), "group_id"),
    **dict.fromkeys(("partitions", "partition_index", "partition_indexes", "index"), "partition"),
    "transactional_ids": "transactional_id",
    "group_instance_id": "instance_id",
}
WORDS: dict[str, list[Any]] = {
    "topic": TOPICS,
    "group_id": ["g1", "g2", "new"],
    "transactional_id": ["t1", "t2"],
    "partition": [0, 0, 0, 1, 2],
    "instance_id": ["i1", "i2"],
    "member_id": ["", "m1"],
    "coordinator_keys": ["g1", "t1"],
    "key": ["g1", "t1", "producer_byte_rate"],
    "key_type": [0, 1, 2],
    "protocol_type": ["consumer", "consumer", "connect"],
    "protocol_name": ["range", "cooperative-sticky"],
    "server_assignor": ["range", "uniform"],
    "subscribed_topic_regex": ["p.*", "(", "(a|b)+c{2,5}[^x-z]", ".*"],
    "transactional_id_pattern": ["t.*", "["],
    "resource_type": [2, 2, 4, 8, 16],
    "resource_name": ["0", "", *TOPICS],
    "configuration_keys": CONFIGS,
    "config_operation": [0, 1, 2, 3],
    "value": ["1", "delete", "compact", "none", "-1", "1e400", 1000.0],
    "entity_type": ["user", "client-id", "ip"],
    "entity_name": ["u1", "127.0.0.1"],
    "states_filter": ["Stable", "Nope"],
    "types_filter": ["classic", "consumer"],
    "client_software_name": ["fuzz", "fuzz", "a b"],
    "client_software_version": ["1.0", "1.0", "é"],
    "feature": ["transaction.version", "kraft.version"],
    "election_type": [0, 1],
    "num_partitions": [-1, 1, 2, 0],
    "count": [1, 2, 5, 9],
    "replication_factor": [1, 1, -1, 3],
    "broker_ids": [0, 0, 1],
    "acks": [-1, -1, 1, 0],
    "session_timeout_ms": [6000, 10_000, 1_800_000, 5999],
    "rebalance_timeout_ms": [1000, 60_000],
    "max_wait_ms": [0, 0, 100, 2**31 - 1],
    "min_bytes": [0, 1, 2**31 - 1],
    "max_bytes": [0, 1, 1 << 20, 2**31 - 1],
    "partition_max_bytes": [0, 1, 1 << 20],
    "session_id": [0],
    "session_epoch": [0, -1, 1, 2],
    "replica_id": [-1, -1, -1, -1, -1, -2, 0, 1],
    "isolation_level": [0, 1],
    "member_epoch": [0, -1, -2, 1],
    "generation_id": [-1, 1, 2],
    "generation_id_or_member_epoch": [-1, 1],
    "producer_epoch": [0, 1, -1],
    "producer_id": [0, 1, -1],
    "transaction_timeout_ms": [1000, 60_000],
    "timestamp": [-1, -2, -3, -4, -5, -6, 0, 1_700_000_000_000],
    "fetch_offset": [0, 1, 5, -1],
    "offset": [0, 1, -1],
    "committed_offset": [0, 5],
    "committed_metadata": ["", "m", "m" * 4096, "m" * 4097],
    "leader_epoch": [-1, 0, 1],
    "current_leader_epoch": [-1, 0],
    "response_partition_limit": [1, 2, 2000],
}
# What belongs to whom, where a field's name alone does not say.
IN_STRUCTS = {("Config", "name"): CONFIGS, ("Protocol", "name"): ["range", "roundrobin"], ("Op", "key"): WORDS["key"]}


class Facts:
    """What this broker said so far."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self._told: list[dict[str, Any]] = []
        self._topic_ids: list[bytes] = []

    def learn(self, request: Message | None, response: Message) -> None:
        fact = {name: value for name in IDENTITIES if (value := getattr_or(response, name)) not in (None, "", 0, -1)}
        if fact:
            for name in ("group_id", "transactional_id", "group_instance_id", "instance_id"):
                if request is not None and getattr_or(request, name):
                    fact[name] = getattr_or(request, name)
            if "generation_id" in fact or "member_epoch" in fact:
                fact["generation_id_or_member_epoch"] = fact.get("generation_id", fact.get("member_epoch"))
            if "session_id" in fact:
                fact["session_epoch"] = 1 + (getattr_or(request, "session_epoch") or 0) if request is not None else 1
            self._told.append(fact)
            del self._told[:-12]
        for topic in getattr_or(response, "topics") or ():
            if getattr_or(topic, "topic_id") not in (None, bytes(16)):
                self._topic_ids.append(topic.topic_id)
                del self._topic_ids[:-12]

    def some(self) -> dict[str, Any]:
        """What one request says of itself: who it is from, or nothing."""
        return self._rng.choice(self._told) if self._told and self._rng.random() < 0.85 else {}

    def words(self, struct: str, field: Field, fact: dict[str, Any]) -> list[Any]:
        """Values for a field that mean something."""
        name = field.name.removeprefix("v3_and_below_")
        known = IN_STRUCTS.get((struct, name)) or WORDS.get(ALIASES.get(name, name), [])
        if name.endswith("topic_id"):
            known = self._topic_ids
        if name in fact and self._rng.random() < 0.9:
            known = [fact[name]]
        return [value for value in known if fits(value, field.type)]


IDENTITIES = ("member_id", "generation_id", "member_epoch", "producer_id", "producer_epoch", "session_id")


def getattr_or(message: Any, name: str) -> Any:
    return getattr(message, name) if name in message._defaults else None


def fits(value: Any, kind: str) -> bool:
    if kind in BITS:
        half = 1 << BITS[kind] - 1
        return type(value) is int and -half <= value < half
    return type(value) is KINDS.get(kind, int)
