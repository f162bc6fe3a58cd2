"""Our values in the columns and forms of the golden expectations, so that a test compares one list with another.

A row follows `batchColumns` or `recordColumns` of the expectation file (forms: `golden/README.md`). Nothing here reads files; it
takes batches and records and returns rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from milepost.record.batch import TimestampType
from milepost.record.batches import AnyBatch
from milepost.record.control import parse_end_transaction
from milepost.record.records import Record

TIMESTAMP_TYPES = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def batch_row(batch: AnyBatch) -> list[Any]:
    """One row of `segments[].batches`. What magic 0 and 1 do not have is null there, and so it is here."""
    last_columns = [
        batch.position,
        TIMESTAMP_TYPES[batch.timestamp_type],
        batch.max_timestamp,
        batch.size,
        batch.magic,
        batch.codec.name.lower(),
        batch.crc,
        batch.is_valid(),
    ]
    if batch.magic < 2:
        return [None, batch.last_offset, *[None] * 9, *last_columns]
    return [
        batch.base_offset,
        batch.last_offset,
        batch.record_count,
        batch.base_sequence,
        batch.last_sequence,
        batch.producer_id,
        batch.producer_epoch,
        batch.partition_leader_epoch,
        batch.is_transactional,
        batch.is_control,
        batch.delete_horizon_ms,
        *last_columns,
    ]


def expected_batch_rows(expected: dict[str, Any], segment: dict[str, Any]) -> list[list[Any]]:
    """The expected rows with one spelling of codec names (2.4.1 prints them in capitals)."""
    codec_column = expected["batchColumns"].index("compresscodec")
    return [[*row[:codec_column], row[codec_column].lower(), *row[codec_column + 1 :]] for row in segment["batches"]]


def record_rows(batches: Iterable[AnyBatch], expected_rows: list[list[Any]]) -> list[list[Any]]:
    """Rows of `segments[].records` for all records of `batches`; contents in the forms of the row at the same place."""
    pairs = [(batch, record) for batch in batches for record in batch.records()]
    blank: list[Any] = [None] * 6
    return [
        record_row(batch, record, expected_rows[place] if place < len(expected_rows) else blank)
        for place, (batch, record) in enumerate(pairs)
    ]


def record_row(batch: AnyBatch, record: Record, expected_row: list[Any]) -> list[Any]:
    sequence = record.sequence if batch.magic == 2 else None
    if batch.is_control:
        marker = parse_end_transaction(record)
        shown = {"marker": [marker.control_type.name, marker.coordinator_epoch]}
        return [record.offset, record.timestamp, sequence, None, None, shown]
    key_form, value_form, header_forms = expected_row[3:]
    forms = [form for _, form in header_forms or ()]
    headers = [
        [name, in_the_form_of(forms[place] if place < len(forms) else None, value)]
        for place, (name, value) in enumerate(record.headers)
    ]
    return [
        record.offset,
        record.timestamp,
        sequence,
        in_the_form_of(key_form, record.key),
        in_the_form_of(value_form, record.value),
        headers,
    ]


def in_the_form_of(form: Any, content: bytes | None) -> Any:
    """`content` shown in the same way as `form`: null, a string, {"hex"} or {"len", "sha256"}."""
    if content is None:
        return None
    if isinstance(form, dict) and "sha256" in form:
        return {"len": len(content), "sha256": hashlib.sha256(content).hexdigest()[: len(form["sha256"])]}
    if isinstance(form, str):
        return content.decode("utf-8", "backslashreplace")
    return {"hex": content.hex()}
