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

from milepost.record.internal_topics.field_types import INT32, NULLABLE_BYTES, NULLABLE_STRING, STRING, Array
from milepost.record.internal_topics.layout import Layout, StructType, carried, stored

PROTOCOL_TYPE = "consumer"


@stored()
class TopicPartitions:
    topic: str = carried(STRING)
    partitions: tuple[int, ...] = carried(Array(INT32))


@stored(kw_only=True)
class ConsumerProtocolSubscription:
    topics: tuple[str, ...] = carried(Array(STRING))
    user_data: bytes | None = carried(NULLABLE_BYTES, default=None)
    owned_partitions: tuple[TopicPartitions, ...] = carried(Array(StructType(TopicPartitions)), default=(), since=1)
    generation_id: int = carried(INT32, default=-1, since=2)
    rack_id: str | None = carried(NULLABLE_STRING, default=None, since=3)
    schema_version: int = 3


@stored(kw_only=True)
class ConsumerProtocolAssignment:
    assigned_partitions: tuple[TopicPartitions, ...] = carried(Array(StructType(TopicPartitions)))
    user_data: bytes | None = carried(NULLABLE_BYTES, default=None)
    schema_version: int = 3


SUBSCRIPTION = Layout(ConsumerProtocolSubscription, range(4))
ASSIGNMENT = Layout(ConsumerProtocolAssignment, range(4))
