"""Names of partition directories: which topic and partition a directory holds, and what state it is in.

    name                            suffix    state
    page_visits-0                   ""        a live log; the *last* dash separates the partition, topics may hold dashes
    page_visits-0.<uid>-delete      delete    renamed for deletion; removed after `file.delete.delay.ms`
    page_visits-0.<uid>-stray       stray     a replica nobody assigned to this broker, kept aside
    page_visits-0.<uid>-future      future    the copy that is being moved into this data directory

`<uid>` is 32 lower-case hex digits. A file name may hold 255 bytes, so `-delete` and `-stray` names are cut to 255 by
shortening the topic; the full topic can then no longer be read from the name, and nobody needs it. `-future` is not
cut.

Not promised: that the name round-trips. `t-007` is partition 7, as it is for Kafka.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from milepost.errors import InvalidArgument, KafkaStorage

MAX_TOPIC_LENGTH = 249
MAX_NAME_LENGTH = 255
MAX_PARTITION = 2**31 - 1

DELETE = "delete"
STRAY = "stray"

LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
SUFFIXED = re.compile(r"(\S+-\S+)\.\S+-(delete|stray|future)")
ENDS_WITH_SUFFIX = re.compile(r"-(delete|stray|future)\Z")
DIGITS = re.compile(r"[0-9]+", re.ASCII)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def parse_directory_name(name: str) -> tuple[TopicPartition, str]:
    """What the directory holds and its suffix: "" (a live log), "delete", "stray" or "future"."""
    stem, suffix = name, ""
    if ENDS_WITH_SUFFIX.search(name):
        match = SUFFIXED.fullmatch(name)
        if match is None:
            raise KafkaStorage(f"directory {name!r}: expected <topic>-<partition>.<uid>-<suffix>; move it elsewhere")
        stem, suffix = match.group(1), match.group(2)
    topic, dash, partition = stem.rpartition("-")
    if not dash or not DIGITS.fullmatch(partition) or int(partition) > MAX_PARTITION:
        raise KafkaStorage(
            f"directory {name!r}: expected <topic>-<partition> with a partition from 0 to {MAX_PARTITION}; move it elsewhere"
        )
    fault = topic_name_fault(topic)
    if fault:
        raise KafkaStorage(f"directory {name!r}: {fault}; move it elsewhere")
    return TopicPartition(topic, int(partition)), suffix


def delete_directory_name(tp: TopicPartition, uid: str) -> str:
    return _cut_name(tp, uid, DELETE)


def stray_directory_name(tp: TopicPartition, uid: str) -> str:
    return _cut_name(tp, uid, STRAY)


def _cut_name(tp: TopicPartition, uid: str, suffix: str) -> str:
    tail = f"-{tp.partition}.{uid}-{suffix}"
    return tp.topic[: MAX_NAME_LENGTH - len(tail)] + tail


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
