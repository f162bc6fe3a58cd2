"""The topic `__consumer_offsets`: bytes to values and back, and the text that Kafka's dump tool prints for them.

A key starts with an i16 that says what kind of record it is, a value with an i16 version. The kinds and their fields are in
`classic_records` (types 0 to 2) and `consumer_group_records` (3 to 8 and 16); other types are `Unknown`, kept as they are.
A null value (a tombstone) removes what the key names.

`describe_key` and `describe_value` follow 3.9.1 and 4.3.0, which print the same JSON. 2.4.1 printed another text, which is not
offered.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from milepost.errors import InvalidArgument, InvalidRecord
from milepost.record.internal_topics import classic_records as classic
from milepost.record.internal_topics import consumer_group_records as groups
from milepost.record.internal_topics import consumer_protocol
from milepost.record.internal_topics.field_types import dump_json
from milepost.record.internal_topics.layout import Layout
from milepost.record.internal_topics.unknown import Unknown, number_in_front, unknown_unless

Key = (
    classic.OffsetCommitKey
    | classic.GroupMetadataKey
    | groups.ConsumerGroupMetadataKey
    | groups.ConsumerGroupPartitionMetadataKey
    | groups.ConsumerGroupMemberMetadataKey
    | groups.ConsumerGroupTargetAssignmentMetadataKey
    | groups.ConsumerGroupTargetAssignmentMemberKey
    | groups.ConsumerGroupCurrentMemberAssignmentKey
    | groups.ConsumerGroupRegularExpressionKey
    | Unknown
)
Value = (
    classic.OffsetCommitValue
    | classic.GroupMetadataValue
    | groups.ConsumerGroupMetadataValue
    | groups.ConsumerGroupPartitionMetadataValue
    | groups.ConsumerGroupMemberMetadataValue
    | groups.ConsumerGroupTargetAssignmentMetadataValue
    | groups.ConsumerGroupTargetAssignmentMemberValue
    | groups.ConsumerGroupCurrentMemberAssignmentValue
    | groups.ConsumerGroupRegularExpressionValue
    | Unknown
)

# Which value stands under which key.
PAIRS: list[tuple[Layout[Any], Layout[Any]]] = [
    (classic.OFFSET_COMMIT_KEY, classic.OFFSET_COMMIT_VALUE),
    (classic.GROUP_METADATA_KEY, classic.GROUP_METADATA_VALUE),
    *zip(groups.KEYS, groups.VALUES, strict=True),
]
KEY_LAYOUTS: dict[int, Layout[Any]] = {key_type: key for key, _ in PAIRS for key_type in key.versions}
VALUE_LAYOUTS: dict[type[Any], Layout[Any]] = {key.cls: value for key, value in PAIRS}
LAYOUTS: dict[type[Any], Layout[Any]] = {layout.cls: layout for pair in PAIRS for layout in pair}


def decode_key(data: bytes) -> Key:
    layout = KEY_LAYOUTS.get(number_in_front(data))
    key: Key = Unknown(data) if layout is None else layout.decode(data)
    return key


def decode_value(key: Key, data: bytes | None) -> Value | None:
    """The value under `key`; None for a tombstone."""
    if data is None:
        return None
    value: Value = Unknown(data) if isinstance(key, Unknown) else unknown_unless(VALUE_LAYOUTS[type(key)], data)
    return value


def encode(record: Key | Value) -> bytes:
    return record.data if isinstance(record, Unknown) else layout_of(record).encode(record)


def encoding(record: Value) -> Generator[None, None, bytes]:
    """The same in pieces, of a value that may have thousands of topics."""
    return record.data if isinstance(record, Unknown) else (yield from layout_of(record).encoding(record))


def layout_of(record: Key | Value) -> Layout[Any]:
    layout = LAYOUTS.get(type(record))
    if layout is None:
        raise InvalidArgument(f"{type(record).__name__} is no key or value of __consumer_offsets")
    return layout


def describe_key(key: Key) -> str:
    if isinstance(key, Unknown):
        return key.describe("type")
    return dump_json({"type": str(key.type), "data": LAYOUTS[type(key)].render(key)})


def describe_value(value: Value | None) -> str:
    if value is None:
        return "<DELETE>"
    if isinstance(value, Unknown):
        return value.describe("version")
    data = LAYOUTS[type(value)].render(value)
    if isinstance(value, classic.GroupMetadataValue) and value.protocol_type == consumer_protocol.PROTOCOL_TYPE:
        for rendered, member in zip(data["members"], value.members, strict=True):
            rendered["subscription"] = opened(consumer_protocol.SUBSCRIPTION, member.subscription, rendered["subscription"])
            rendered["assignment"] = opened(consumer_protocol.ASSIGNMENT, member.assignment, rendered["assignment"])
    return dump_json({"version": str(value.schema_version), "data": data})


def opened(layout: Layout[Any], content: bytes, otherwise: str) -> Any:
    """What a consumer's bytes say, or `otherwise` when they are not of its protocol: clients put there what they like."""
    try:
        return layout.render(layout.decode_lenient(content))
    except InvalidRecord:
        return otherwise
