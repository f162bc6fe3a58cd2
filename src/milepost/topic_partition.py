"""A topic and a partition of it, and which names a topic may have: Kafka's rules."""

from __future__ import annotations

import re
from typing import NamedTuple

from milepost.errors import InvalidArgument

MAX_TOPIC_LENGTH = 249
MAX_PARTITION = 2**31 - 1

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def validate_topic_name(name: str) -> None:
    fault = topic_name_fault(name)
    if fault:
        raise InvalidArgument(f"topic {name!r}: {fault}")


def topic_name_fault(name: str) -> str | None:
    """What is wrong with a topic's name, as part of a sentence."""
    if not name:
        return "a topic's name cannot be empty"
    if name in (".", ".."):
        return "a topic's name cannot be '.' or '..'"
    if len(name) > MAX_TOPIC_LENGTH:
        return f"a topic's name has at most {MAX_TOPIC_LENGTH} characters, this one has {len(name)}"
    if not LEGAL_TOPIC.fullmatch(name):
        return "a topic's name holds only letters, digits, '.', '_' and '-'"
    return None
