"""What is inside a batch whose checksum is right: every record, walked.

A right CRC says that the bytes are those that were written, not that they make sense: a client or a broker may have written
nonsense.

    header    the last offset is not below the first; the record count is not negative and fits the offsets
    records   every field ends inside its record, every record inside the batch; offsets rise within the batch's own; the largest
              timestamp is the header's
    control   the key names a type; an ABORT or COMMIT marker has its coordinator epoch
    old sets  the inner messages of a compressed set have right CRCs, and their offsets rise
"""

from __future__ import annotations

from itertools import pairwise

from milepost.codec.compression import decompress
from milepost.errors import InvalidRecord, MilepostError
from milepost.record.batch import HEADER_SIZE, LOG_APPEND_TIME_FLAG, RecordBatch, TimestampType
from milepost.record.batches import AnyBatch, iter_batches
from milepost.record.control import ControlType, control_type, parse_end_transaction
from milepost.record.kernel import decode_records, scan_records
from milepost.record.legacy import LegacyBatch


def check_batch(batch: AnyBatch) -> tuple[int, str]:
    """How many records the batch holds, and what is wrong with it (empty: nothing)."""
    try:
        return _check_v2(batch) if isinstance(batch, RecordBatch) else _check_legacy(batch)
    except MilepostError as error:
        return 0, _relative(batch, error)


def check_header(batch: RecordBatch) -> str:
    if batch.last_offset_delta < 0:
        return f"its last offset delta is {batch.last_offset_delta}"
    if not 0 <= batch.record_count <= batch.last_offset_delta + 1:
        return f"its record count is {batch.record_count}, with {batch.last_offset_delta + 1} offsets"
    return ""


def _check_v2(batch: RecordBatch) -> tuple[int, str]:
    wrong = check_header(batch)
    count = batch.record_count
    if wrong or not count:
        return 0, wrong
    if batch.is_compressed:
        data = decompress(batch.codec, batch.payload())
        start, end = 0, len(data)
    else:
        data = batch.buffer
        start, end = batch.position + HEADER_SIZE, batch.position + batch.size
    newest, _, _, _, is_sequential = scan_records(data, start, end, count, batch.base_timestamp)
    if not is_sequential and not _deltas_rise(decode_records(data, start, end, count, 0, 0).offsets, batch.last_offset_delta):
        return count, f"the offsets of its records do not rise within {batch.base_offset} to {batch.last_offset}"
    if newest != batch.max_timestamp and not batch.attributes & LOG_APPEND_TIME_FLAG:
        return count, f"its header says that {batch.max_timestamp} is the largest timestamp, and its records have {newest}"
    return count, ""


def _deltas_rise(deltas: object, most: int) -> bool:
    previous = -1
    for delta in deltas:  # type: ignore[attr-defined]
        if not previous < delta <= most:
            return False
        previous = delta
    return True


def _check_legacy(batch: LegacyBatch) -> tuple[int, str]:
    records = batch.records()
    if not batch.is_compressed:
        return 1, ""
    for place, message in enumerate(iter_batches(decompress(batch.codec, batch.payload(), magic=batch.magic))):
        if not message.is_valid():
            return len(records), f"the CRC of its inner message {place} is wrong"
    if any(after.offset <= before.offset for before, after in pairwise(records)):
        return len(records), f"the offsets of its inner messages do not rise up to {batch.last_offset}"
    newest = max(record.timestamp for record in records)
    if batch.timestamp_type is TimestampType.CREATE_TIME and batch.max_timestamp != newest:
        return len(records), f"it says that {batch.max_timestamp} is the largest timestamp, and its inner messages have {newest}"
    return len(records), ""


def check_marker(batch: RecordBatch) -> tuple[bool, str]:
    """Whether a control batch is an ABORT marker, and what is wrong with it."""
    try:
        for record in batch.records():
            kind = control_type(record.key)
            if kind in (ControlType.ABORT, ControlType.COMMIT):
                parse_end_transaction(record)
                return kind is ControlType.ABORT, ""
    except MilepostError as error:
        return False, _relative(batch, error)
    return False, ""


def _relative(batch: AnyBatch, error: MilepostError) -> str:
    """The error with positions that count from the start of the batch: the buffer it lies in means nothing to anybody."""
    alone = RecordBatch(bytes(batch.view())) if isinstance(batch, RecordBatch) else LegacyBatch(bytes(batch.view()))
    try:
        alone.records()
    except MilepostError as again:
        error = again
    sentence = str(error)
    place = f"{alone.place()}: "
    if sentence.startswith(place):
        sentence = sentence[len(place) :]
    return sentence + (" (counted from the start of the batch)" if isinstance(error, InvalidRecord) and " position " in sentence else "")
