"""A dump in the words of Kafka's kafka-dump-log (3.9 and later).

    Dumping data/page_visits-0/00000000000000000000.log
    Log starting offset: 0
    baseOffset: 0 lastOffset: 1 count: 2 … position: 0 CreateTime: 1700000000005 size: 88 magic: 2 … isvalid: true
    | offset: 0 CreateTime: 1700000000000 keySize: 2 valueSize: 2 sequence: -1 headerKeys: [] key: k1 payload: v1

Lines, fields and their order are the tool's, so that scripts made for it go on working; what does not fit an index goes to the
second stream at the end, as there. Ours are: the lines of checkpoints, metadata and of damage in the middle of a file, and that
control characters are shown as \\xNN.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from milepost.errors import MilepostError
from milepost.inspect.dump.decoders import StringDecoder, shown
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

Write = Callable[[str], object]


def java_bool(value: bool) -> str:
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


class TextView:
    def __init__(self, options: Options, write: Write, remark: Write):
        """`write` takes the lines of the dump, `remark` those about what is wrong."""
        self.options = options
        self._write = write
        self._remark = remark
        self._remarks: dict[tuple[str, str], list[str]] = {}
        self._followed: dict[str, list[tuple[int, int]]] = {}
        self._path = ""
        self._last_offset: int | None = None

    def file(self, path: str, name: FileName) -> None:
        self._path, self._last_offset = path, None
        self._write(f"Dumping {shown(path)}")
        if name.kind is FileKind.LOG and name.base_offset is not None:
            self._write(f"Log starting offset: {name.base_offset}")

    def batch(self, position: int, batch: AnyBatch, is_valid: bool) -> None:
        if batch.magic >= 2:
            start = (
                f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.record_count} "
                f"baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence} producerId: {batch.producer_id} "
                f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.partition_leader_epoch} "
                f"isTransactional: {java_bool(batch.is_transactional)} isControl: {java_bool(batch.is_control)} "
                f"deleteHorizonMs: {optional_long(batch.delete_horizon_ms)}"
            )
        else:
            start = f"offset: {batch.last_offset}"
        self._write(
            f"{start} position: {position} {TIMESTAMP_TYPES[batch.timestamp_type]}: {batch.max_timestamp} size: {batch.size} "
            f"magic: {batch.magic} compresscodec: {codec_name(batch)} crc: {batch.crc} isvalid: {java_bool(is_valid)}"
        )

    def record(self, batch: AnyBatch, record: Record, decoder: StringDecoder, message: MessageCrc | None) -> None:
        if self._last_offset is not None and record.offset != self._last_offset + 1:
            self._followed.setdefault(self._path, []).append((self._last_offset, record.offset))
        self._last_offset = record.offset
        line = "" if self.options.skip_record_metadata else self._metadata(batch, record, message)
        if self.options.print_data_log and not batch.is_control:
            key, payload = decoder.texts(record.key, record.value)
            if key is not None:
                line = f"{line or '|'} key: {key}"
            if payload is not None:
                line = f"{line} payload: {payload}"
        self._write(line)

    def _metadata(self, batch: AnyBatch, record: Record, message: MessageCrc | None) -> str:
        key_size = -1 if record.key is None else len(record.key)
        value_size = -1 if record.value is None else len(record.value)
        line = (
            f"| offset: {record.offset} {TIMESTAMP_TYPES[batch.timestamp_type]}: {record.timestamp} "
            f"keySize: {key_size} valueSize: {value_size}"
        )
        if message is not None:
            return f"{line} isValid: {java_bool(message.is_valid)} crc: {message.crc}}}"
        line = f"{line} sequence: {record.sequence} headerKeys: [{','.join(shown(key) for key, _ in record.headers)}]"
        return line + control_text(record) if batch.is_control else line

    def damage(self, path: str, damage: Damage) -> None:
        if damage.batch is not None and damage.batch.size == damage.size:
            return  # the line of the batch says that it is invalid
        name = shown(posixpath.basename(path))
        if damage.is_tail:
            self._write(f"Found {damage.size} invalid bytes at the end of {name}")
        else:
            self._write(f"Found {damage.size} invalid bytes at position {damage.position} of {name}; the next batch starts at {damage.end}")

    def unreadable(self, path: str, position: int, error: MilepostError) -> None:
        self._remark(shown(f"The records of the batch at position {position} of {path} cannot be read: {error}"))

    def offset_entry(self, entry: OffsetPosition) -> None:
        self._write(f"offset: {entry.offset} position: {entry.position}")

    def time_entry(self, entry: TimestampOffset) -> None:
        self._write(f"timestamp: {entry.timestamp} offset: {entry.offset}")

    def empty(self, path: str) -> None:
        if path.endswith(".index"):
            self._write(f"{shown(path)} is empty.")

    def aborted_transaction(self, entry: AbortedTransaction) -> None:
        self._write(
            f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )

    def producer(self, entry: SnapshotEntry) -> None:
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {optional_long(entry.current_txn_first_offset)} lastTimestamp: {entry.last_timestamp} "
        )
        for batch in producer_entry(entry).batches:
            line += (
                f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} lastOffset: {batch.last_offset} "
                f"offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
            )
        self._write(line)

    def epoch(self, entry: EpochEntry) -> None:
        self._write(f"epoch: {entry.epoch} startOffset: {entry.start_offset}")

    def checkpoint(self, partition: TopicPartition, offset: int) -> None:
        self._write(f"topic: {shown(partition.topic)} partition: {partition.partition} offset: {offset}")

    def partition_metadata(self, metadata: PartitionMetadata) -> None:
        self._write(f"version: {metadata.version} topicId: {metadata.topic_id}")

    def meta_properties(self, meta: MetaProperties) -> None:
        fields = {"version": meta.version, "clusterId": meta.cluster_id, "nodeId": meta.node_id, "directoryId": meta.directory_id}
        self._write(shown(" ".join(f"{name}: {value}" for name, value in fields.items() if value is not None)))

    def small_file(self, content: bytes) -> None:
        self._write(shown(content.decode("utf-8", "replace")))

    def remark(self, remark: Remark) -> None:
        line = f"  {remark.expected_name}: {remark.expected}, {remark.found_name}: {remark.found}"
        self._remarks.setdefault((remark.title, remark.path), []).append(line)

    def ignored(self, path: str, kind: FileKind) -> None:
        self._remark(f"Ignoring unknown file {shown(path)}" if kind is FileKind.UNKNOWN else f"Ignoring {shown(path)} ({kind.value})")

    def failed(self, path: str, reason: str) -> None:
        self._remark(shown(reason if path in reason else f"{path}: {reason}"))

    def finish(self) -> None:
        for (title, path), lines in self._remarks.items():
            self._remark(title if title.endswith(".") else f"{title} :{shown(posixpath.abspath(path))}")
            for line in lines:
                self._remark(line.lstrip() if title.endswith(".") else line)
        for path, pairs in self._followed.items():
            self._remark(f"Non-consecutive offsets in {shown(posixpath.abspath(path))}")
            for before, after in pairs:
                self._remark(f"  {before} is followed by {after}")


def control_text(record: Record) -> str:
    try:
        kind = control_type(record.key)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            marker = parse_end_transaction(record)
            return f" endTxnMarker: {marker.control_type.name} coordinatorEpoch: {marker.coordinator_epoch}"
        number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
        return f" controlType: {kind.name}({number})"
    except MilepostError as error:
        return f" controlType: <{shown(str(error))}>"
