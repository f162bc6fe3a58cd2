"""A dump as JSON, one object per line, in Kafka's vocabulary.

Every object has `type`, and all but `file` objects have `file`, the path it was read from:

    type             further keys
    file             file, kind, baseOffset (null where the name has no number)
    batch            baseOffset (null in magic 0 and 1), lastOffset, count, baseSequence, lastSequence, producerId, producerEpoch,
                     partitionLeaderEpoch, isTransactional, isControl, deleteHorizonMs, position, timestampType, maxTimestamp, size, magic,
                     compresscodec, crc, isvalid
    record           offset, timestampType, timestamp, keySize, valueSize, sequence, headerKeys, and with the data: headers, key,
                     payload: a string, {"hex": …} for bytes that are not UTF-8, an object from a decoder, or null
                     control records: controlType, and for markers coordinatorEpoch · magic 0 and 1: crc, isvalid
    damage           position, size, isTail, isZero, reason
    unreadable       position, reason
    indexEntry       offset, position                     timeIndexEntry   timestamp, offset
    abortedTransaction   version, producerId, firstOffset, lastOffset, lastStableOffset
    producer         producerId, producerEpoch, coordinatorEpoch, currentTxnFirstOffset, lastTimestamp, firstSequence, lastSequence,
                     lastOffset, offsetDelta
    leaderEpoch      epoch, startOffset                   checkpoint       topic, partition, offset
    partitionMetadata    version, topicId                 metaProperties   version, clusterId, nodeId, directoryId
    content          text                                 remark           title, indexed, found (-1: nothing is there)
    ignored          reason: a file of no known kind      failed           reason: a file that cannot be read, or not to its end
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from milepost.errors import MilepostError
from milepost.inspect.dump.decoders import StringDecoder, json_of
from milepost.inspect.dump.dump import MessageCrc, Options
from milepost.inspect.dump.index_remarks import Remark
from milepost.inspect.log_file import Damage
from milepost.inspect.paths import FileKind, FileName
from milepost.inspect.vocabulary import TIMESTAMP_TYPES, codec_name
from milepost.log.directory.meta_properties import MetaProperties
from milepost.log.directory.partition_metadata import PartitionMetadata
from milepost.log.epochs import EpochEntry
from milepost.log.producer_state.producers import producer_entry
from milepost.log.producer_state.snapshot import SnapshotEntry
from milepost.record.batches import AnyBatch
from milepost.record.control import ControlType, control_type, parse_end_transaction
from milepost.record.records import Record
from milepost.segment.offset_index import OffsetPosition
from milepost.segment.time_index import TimestampOffset
from milepost.segment.txn_index import AbortedTransaction
from milepost.topic_partition import TopicPartition


def batch_fields(position: int, batch: AnyBatch, is_valid: bool) -> dict[str, Any]:
    is_v2 = batch.magic >= 2
    return {
        "baseOffset": batch.base_offset if is_v2 else None,
        "lastOffset": batch.last_offset,
        "count": batch.record_count,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "isTransactional": batch.is_transactional,
        "isControl": batch.is_control,
        "deleteHorizonMs": batch.delete_horizon_ms,
        "position": position,
        "timestampType": TIMESTAMP_TYPES[batch.timestamp_type],
        "maxTimestamp": batch.max_timestamp,
        "size": batch.size,
        "magic": batch.magic,
        "compresscodec": codec_name(batch),
        "crc": batch.crc,
        "isvalid": is_valid,
    }


class JsonView:
    def __init__(self, options: Options, write: Callable[[str], object]):
        self.options = options
        self._write = write
        self._path = ""

    def _line(self, type_name: str, /, **fields: Any) -> None:
        self._write(json.dumps({"type": type_name, "file": self._path, **fields}, separators=(",", ":")))

    def file(self, path: str, name: FileName) -> None:
        self._path = path
        self._line("file", kind=name.kind.value, baseOffset=name.base_offset)

    def batch(self, position: int, batch: AnyBatch, is_valid: bool) -> None:
        self._line("batch", **batch_fields(position, batch, is_valid))

    def record(self, batch: AnyBatch, record: Record, decoder: StringDecoder, message: MessageCrc | None) -> None:
        fields: dict[str, Any] = {"offset": record.offset}
        if not self.options.skip_record_metadata:
            fields |= {
                "timestampType": TIMESTAMP_TYPES[batch.timestamp_type],
                "timestamp": record.timestamp,
                "keySize": -1 if record.key is None else len(record.key),
                "valueSize": -1 if record.value is None else len(record.value),
                "sequence": record.sequence,
                "headerKeys": [key for key, _ in record.headers],
            }
            if message is not None:
                fields |= {"crc": message.crc, "isvalid": message.is_valid}
        if batch.is_control:
            fields |= control_fields(record)
        elif self.options.print_data_log:
            key, payload = decoder.values(record.key, record.value)
            fields |= {"key": key, "payload": payload, "headers": [[name, json_of(value)] for name, value in record.headers]}
        self._line("record", **fields)

    def damage(self, path: str, damage: Damage) -> None:
        self._line(
            "damage", position=damage.position, size=damage.size, isTail=damage.is_tail, isZero=damage.is_zero, reason=damage.reason
        )

    def unreadable(self, path: str, position: int, error: MilepostError) -> None:
        self._line("unreadable", position=position, reason=str(error))

    def offset_entry(self, entry: OffsetPosition) -> None:
        self._line("indexEntry", offset=entry.offset, position=entry.position)

    def time_entry(self, entry: TimestampOffset) -> None:
        self._line("timeIndexEntry", timestamp=entry.timestamp, offset=entry.offset)

    def empty(self, path: str) -> None:
        """An object per entry: without entries there is none."""

    def aborted_transaction(self, entry: AbortedTransaction) -> None:
        self._line(
            "abortedTransaction",
            version=entry.version,
            producerId=entry.producer_id,
            firstOffset=entry.first_offset,
            lastOffset=entry.last_offset,
            lastStableOffset=entry.last_stable_offset,
        )

    def producer(self, entry: SnapshotEntry) -> None:
        newest = next(iter(producer_entry(entry).batches), None)
        self._line(
            "producer",
            producerId=entry.producer_id,
            producerEpoch=entry.epoch,
            coordinatorEpoch=entry.coordinator_epoch,
            currentTxnFirstOffset=entry.current_txn_first_offset,
            lastTimestamp=entry.last_timestamp,
            firstSequence=newest.first_sequence if newest else None,
            lastSequence=newest.last_sequence if newest else None,
            lastOffset=newest.last_offset if newest else None,
            offsetDelta=newest.offset_delta if newest else None,
        )

    def epoch(self, entry: EpochEntry) -> None:
        self._line("leaderEpoch", epoch=entry.epoch, startOffset=entry.start_offset)

    def checkpoint(self, partition: TopicPartition, offset: int) -> None:
        self._line("checkpoint", topic=partition.topic, partition=partition.partition, offset=offset)

    def partition_metadata(self, metadata: PartitionMetadata) -> None:
        self._line("partitionMetadata", version=metadata.version, topicId=metadata.topic_id)

    def meta_properties(self, meta: MetaProperties) -> None:
        self._line(
            "metaProperties", version=meta.version, clusterId=meta.cluster_id, nodeId=meta.node_id, directoryId=meta.directory_id
        )

    def small_file(self, content: bytes) -> None:
        self._line("content", text=content.decode("utf-8", "replace"))

    def remark(self, remark: Remark) -> None:
        self._line("remark", title=remark.title, indexed=remark.expected, found=remark.found)

    def ignored(self, path: str, kind: FileKind) -> None:
        self._path = path
        self._line("ignored", reason=kind.value)

    def failed(self, path: str, reason: str) -> None:
        self._path = path
        self._line("failed", reason=reason)

    def finish(self) -> None:
        """Nothing waits for the end here: every line was written when it was known."""


def control_fields(record: Record) -> dict[str, Any]:
    try:
        kind = control_type(record.key)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            return {"controlType": kind.name, "coordinatorEpoch": parse_end_transaction(record).coordinator_epoch}
        return {"controlType": kind.name}
    except MilepostError as error:
        return {"controlType": None, "reason": str(error)}
