"""What a field is given: something the broker knows, something it does not, or a plain value.

Which noun a field stands for is guessed from its name, and a name that is not listed here is a text like any other: a new API is
attacked without an entry, and an entry lets the attack get further in.
"""

from __future__ import annotations

import struct
from typing import Any

from milepost.protocol.schema import FRESH, Field
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.hostile.attack.world import World
from tests.hostile.besieged import NOW

KNOWN, UNKNOWN, REPEATS = "known", "unknown", "repeats"

# By `parent.name`, else by the name alone.
NOUNS = {
    "name": "topic",
    "topic": "topic",
    "topic_name": "topic",
    "topic_names": "topic",
    "subscribed_topic_names": "topic",
    "resource_name": "resource",
    "configs.name": "config",
    "configs.value": "config_value",
    "configuration_keys": "config",
    "protocols.name": "protocol",
    "protocol_name": "protocol",
    "protocol_type": "protocol_type",
    "group_id": "group",
    "groups": "group",
    "group_ids": "group",
    "groups_names": "group",
    "coordinator_keys": "group",
    "key": "group",
    "ops.key": "quota",
    "entity_type": "entity_type",
    "entity_name": "client",
    "transactional_id": "transaction",
    "transactional_ids": "transaction",
    "v3_and_below_transactional_id": "transaction",
    "member_id": "member",
}
PARTITIONS = {"partition", "partitions", "partition_index", "partition_indexes", "index"}
CHOICES = {"resource_type": (2, 4, 8, 16, 32), "key_type": (0, 1)}
"""Numbers that decide what the rest means: an array is filled once for each."""
BY_NAME, BY_ID = "name", "id"
"""A topic that may be given either way is given both ways, one after the other."""
CONFIGS = {
    2: (["retention.ms", "retention.bytes", "segment.ms", "flush.ms", "max.message.bytes"], "100000000"),
    4: (["log.cleaner.threads", "num.io.threads"], "2"),
    8: (["milepost.net", "milepost.log"], "INFO"),
    16: (["interval.ms"], "1000"),
    32: (["consumer.session.timeout.ms"], "45000"),
}
PLAIN = {
    "acks": -1,
    "max_wait_ms": 0,
    "timeout_ms": 1000,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "transaction_timeout_ms": 60_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 400,
    "election_type": 0,
    "response_partition_limit": 2000,
    "max_num_offsets": 1,
}
BATCH = build_batch([Record(0, NOW, b"k", b"v")], base_offset=0)


class Vocabulary:
    """Values for the fields of one request. `kind` holds inside the array that is filled, and everything outside is known."""

    def __init__(self, world: World, kind: str = KNOWN, choice: int | str | None = None):
        self._world = world
        self.kind = kind
        self._choice = choice
        self._names: dict[str, list[str]] = {}
        self._topic_ids = list(world.topics.values())
        self._producers = list(world.transactions.values())
        self._numbers = {name: next(values) for name, values in world.numbers.items()}

    def value(self, parent: str, field: Field, number: int, is_inside: bool) -> Any:
        """Of a field that is no array and no struct, in the element `number` of the array around it."""
        kind = self.kind if is_inside else KNOWN
        if kind == REPEATS:
            number, kind = 0, KNOWN
        if field.name in CHOICES:
            return CHOICES[field.name][0] if self._choice is None else self._choice
        if (field.name, self._choice) == ("topic_id", BY_NAME):
            return bytes(16)
        if (field.name, self._choice) == ("name", BY_ID):
            return None
        if field.type == "string":
            return self._text(parent, field, number, kind)
        if field.type == "uuid":
            if field.name != "topic_id":
                return struct.pack(">qq", 7, number)
            ids = self._topic_ids
            return ids[number % len(ids)] if kind == KNOWN else struct.pack(">qq", 1 << 40, number + 1)
        if field.type == "bytes":
            return b"plain"
        if field.type == "records":
            return memoryview(BATCH)
        return self._number(field, number, kind)

    def _text(self, parent: str, field: Field, number: int, kind: str) -> str | None:
        noun = NOUNS.get(f"{parent}.{field.name}", NOUNS.get(field.name, ""))
        if noun not in self._names:
            self._names[noun] = self._known(noun)
        names = self._names[noun]
        if not names:
            return None if field.default is None else f"plain-{number}"
        return names[number % len(names)] if kind == KNOWN else f"{noun}-unknown-{number}"

    def _known(self, noun: str) -> list[str]:
        world = self._world
        resource = self._choice if isinstance(self._choice, int) else 2
        if noun == "resource":
            names = {2: list(world.topics), 4: ["1"], 8: ["1"], 32: world.groups}.get(resource)
            return names or ["metrics-0"]
        if noun in ("config", "config_value"):
            names, value = CONFIGS.get(resource, CONFIGS[2])
            return names if noun == "config" else [value]
        if noun == "group" and self._choice == 1:
            noun = "transaction"
        return {
            "topic": list(world.topics),
            "group": world.groups,
            "transaction": list(world.transactions),
            "member": [world.member],
            "protocol": ["range"],
            "protocol_type": ["consumer"],
            "quota": ["producer_byte_rate"],
            "entity_type": ["client-id"],
            "client": ["client"],
        }.get(noun, [])

    def _number(self, field: Field, number: int, kind: str) -> Any:
        name = field.name
        if name in self._numbers:
            return self._numbers[name]
        if name in PARTITIONS:
            return number % self._world.widest if kind == KNOWN else 1_000_000 + number
        producers = self._producers
        if name.endswith("producer_id"):
            return producers[number % len(producers)][0] if kind == KNOWN else 1_000_000 + number
        if name.endswith("producer_epoch"):
            return producers[number % len(producers)][1] if kind == KNOWN else 0
        if name in ("generation_id", "generation_id_or_member_epoch"):
            return self._world.generation
        if name == "broker_ids" or name == "replicas":
            return 1
        if name == "producer_id_filters":
            return number
        if name in PLAIN:
            return PLAIN[name]
        if field.default is FRESH:
            return 0
        return field.default
