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

from milepost.errors import KafkaStorage
from milepost.topic_partition import MAX_PARTITION, TopicPartition, topic_name_fault

MAX_NAME_LENGTH = 255

DELETE = "delete"
STRAY = "stray"

SUFFIXED = re.compile(r"(\S+-\S+)\.\S+-(delete|stray|future)")
ENDS_WITH_SUFFIX = re.compile(r"-(delete|stray|future)\Z")
DIGITS = re.compile(r"[0-9]+", re.ASCII)


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
