"""A batch that was refused, in the metrics of its topic: as failed or not, and for which reason.

Expected errors do not count as failed: another leader, a batch that is too large or damaged,
a partition whose disk is gone (it is counted there). Too few replicas in sync is a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import (
    CorruptRecord,
    InvalidRecord,
    KafkaStorage,
    MilepostError,
    NotLeaderOrFollower,
    RecordBatchTooLarge,
    RecordTooLarge,
    RecordValidation,
    UnsupportedForMessageFormat,
)
from milepost.metrics.topic_metrics import BrokerTopicMetrics, TopicMetrics
from milepost.record.batch import HEADER_SIZE, MAGIC, RecordBatch

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer

NOT_FAILED = (NotLeaderOrFollower, RecordTooLarge, RecordBatchTooLarge, CorruptRecord, KafkaStorage)


def count_refusal(error: MilepostError, data: ReadableBuffer, topic: TopicMetrics, all_topics: BrokerTopicMetrics) -> None:
    topic.produce_requests += 1
    if not isinstance(error, NOT_FAILED):
        topic.failed_produce_requests += 1
    if isinstance(error, RecordTooLarge | RecordBatchTooLarge):
        topic.bytes_rejected += len(data)
    elif isinstance(error, CorruptRecord):
        all_topics.invalid_crc += 1
    elif isinstance(error, UnsupportedForMessageFormat):
        all_topics.invalid_magic += 1
    elif isinstance(error, RecordValidation):
        # Records are refused one by one for their timestamps, which has a code of its own, or for having no key.
        all_topics.no_key += error.code == InvalidRecord.code
    elif isinstance(error, InvalidRecord):
        all_topics.invalid_offset_or_sequence += is_misnumbered(data)


def is_misnumbered(data: ReadableBuffer) -> bool:
    if len(data) < HEADER_SIZE or data[16] != MAGIC:
        return False
    batch = RecordBatch(data)
    is_unnumbered = batch.producer_id >= 0 and batch.base_sequence < 0
    return is_unnumbered or batch.base_offset != 0 or batch.last_offset_delta + 1 != batch.record_count
