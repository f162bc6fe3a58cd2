"""What a consumer tells its group and is told: the subscription and the assignment inside a classic group's members.

    subscription, versions 0 to 3                           assignment, versions 0 to 3
    i16      version                                        i16     version
    array    topics: string                                 array   assigned_partitions: (string topic, array of i32 partitions)
    bytes?   user_data                                      bytes?  user_data
    array    owned_partitions: (topic, partitions)  1+
    i32      generation_id                          2+
    string?  rack_id                                3+

The broker never needs to look inside; tools do. Clients may be newer than we are: a higher version is read as the highest
known one and bytes behind the known fields are ignored, as Kafka's own readers do.
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.record.internal_topics.field_types import INT32, NULLABLE_BYTES, NULLABLE_STRING, STRING, Array
from milepost.record.internal_topics.layout import Field, Layout, StructType

PROTOCOL_TYPE = "consumer"


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    topic: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolSubscription:
    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    schema_version: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolAssignment:
    assigned_partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None
    schema_version: int = 3


TOPIC_PARTITIONS = StructType(TopicPartitions, Field("topic", STRING), Field("partitions", Array(INT32)))

SUBSCRIPTION = Layout(
    ConsumerProtocolSubscription,
    range(4),
    Field("topics", Array(STRING)),
    Field("user_data", NULLABLE_BYTES),
    Field("owned_partitions", Array(TOPIC_PARTITIONS), since=1),
    Field("generation_id", INT32, since=2),
    Field("rack_id", NULLABLE_STRING, since=3),
)

ASSIGNMENT = Layout(
    ConsumerProtocolAssignment,
    range(4),
    Field("assigned_partitions", Array(TOPIC_PARTITIONS)),
    Field("user_data", NULLABLE_BYTES),
)
