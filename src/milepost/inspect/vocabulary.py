"""The words Kafka's tools use for what a batch says of itself."""

from __future__ import annotations

from milepost.record.batch import CODEC_MASK, TimestampType
from milepost.record.batches import AnyBatch

TIMESTAMP_TYPES = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def codec_name(batch: AnyBatch) -> str:
    """Also of a batch whose codec nobody knows."""
    number = batch.attributes & CODEC_MASK
    return CODECS[number] if number < len(CODECS) else f"unknown({number})"
