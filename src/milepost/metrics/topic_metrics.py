"""What goes into topics and comes out of them: Kafka's BrokerTopicMetrics, for each topic and for all together.

    MessagesInPerSec             records appended
    BytesInPerSec                their bytes, as they came
    BytesOutPerSec               bytes of records in answers to fetches
    BytesRejectedPerSec          bytes of batches that were too large
    TotalProduceRequestsPerSec   partitions in produce requests, and FailedProduceRequestsPerSec those that failed
    TotalFetchRequestsPerSec     partitions in fetch requests, and FailedFetchRequestsPerSec those that failed

Failures that are the client's news and not the broker's trouble (a partition that is not here, an offset that is gone, a batch that
is too large) are not counted as failed, as in Kafka. Why batches were refused is counted for all topics together:

    InvalidMessageCrcRecordsPerSec         the checksum is wrong
    InvalidMagicNumberRecordsPerSec        a record format that cannot be appended
    InvalidOffsetOrSequenceRecordsPerSec   offsets or sequence numbers that do not follow each other
    NoKeyCompactedTopicRecordsPerSec       no key, in a topic that is compacted by key

Counts live in plain attributes: whoever appends adds to them. What a topic had when it was deleted stays in the sum of all.
"""

from __future__ import annotations

from collections.abc import Iterator

from milepost.metrics.names import Kind, MetricName
from milepost.metrics.registry import NO_LABELS, Registry, Sample

# Attribute -> Kafka's name and what it says.
BY_TOPIC = {
    "messages_in": ("MessagesInPerSec", "Records that were appended"),
    "bytes_in": ("BytesInPerSec", "Bytes that producers sent and that were appended"),
    "bytes_out": ("BytesOutPerSec", "Bytes that consumers were sent"),
    "bytes_rejected": ("BytesRejectedPerSec", "Bytes of batches that were too large"),
    "produce_requests": ("TotalProduceRequestsPerSec", "Partitions in produce requests"),
    "failed_produce_requests": ("FailedProduceRequestsPerSec", "Partitions in produce requests that failed"),
    "fetch_requests": ("TotalFetchRequestsPerSec", "Partitions in fetch requests"),
    "failed_fetch_requests": ("FailedFetchRequestsPerSec", "Partitions in fetch requests that failed"),
}
TOGETHER = {
    "invalid_crc": ("InvalidMessageCrcRecordsPerSec", "Batches refused for their checksum"),
    "invalid_magic": ("InvalidMagicNumberRecordsPerSec", "Batches refused for their format"),
    "invalid_offset_or_sequence": ("InvalidOffsetOrSequenceRecordsPerSec", "Batches refused for offsets or sequence numbers"),
    "no_key": ("NoKeyCompactedTopicRecordsPerSec", "Batches refused for records without a key"),
    "replication_bytes_in": ("ReplicationBytesInPerSec", "Bytes fetched from leaders"),
    "replication_bytes_out": ("ReplicationBytesOutPerSec", "Bytes that followers were sent"),
}


class TopicMetrics:
    __slots__ = tuple(BY_TOPIC)

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produce_requests = 0
        self.failed_produce_requests = 0
        self.fetch_requests = 0
        self.failed_fetch_requests = 0


class BrokerTopicMetrics:
    def __init__(self) -> None:
        self._topics: dict[str, TopicMetrics] = {}
        self._gone = TopicMetrics()
        self.invalid_crc = 0
        self.invalid_magic = 0
        self.invalid_offset_or_sequence = 0
        self.no_key = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def of(self, topic: str) -> TopicMetrics:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicMetrics()
        return found

    def forget(self, topic: str) -> None:
        """The topic is deleted."""
        gone = self._topics.pop(topic, None)
        if gone is not None:
            for attribute in BY_TOPIC:
                setattr(self._gone, attribute, getattr(self._gone, attribute) + getattr(gone, attribute))

    def register(self, registry: Registry) -> None:
        for attribute, (name, help) in BY_TOPIC.items():
            registry.add(metric_name(name), Kind.COUNTER, help, lambda attribute=attribute: self._samples(attribute))  # type: ignore[misc]
        for attribute, (name, help) in TOGETHER.items():
            registry.counter(metric_name(name), help, lambda attribute=attribute: getattr(self, attribute))  # type: ignore[misc]

    def _samples(self, attribute: str) -> Iterator[Sample]:
        counts = {topic: getattr(metrics, attribute) for topic, metrics in self._topics.items()}
        yield NO_LABELS, sum(counts.values()) + getattr(self._gone, attribute)
        for topic, count in counts.items():
            yield (("topic", topic),), count


def metric_name(name: str) -> MetricName:
    return MetricName("kafka.server", "BrokerTopicMetrics", name)
