"""Showing what is in the files of a log, one after the other, as Kafka's dump tool does.

`Dump` knows the files; a `View` knows how things look (`dump_text` in the words of kafka-dump-log, `dump_json` as one JSON
object per line). What is read is handed over at once, so a file of any size is shown in bounded memory.

    path                   shown
    a file                 that file, whatever its kind; also one that ends in .deleted, .cleaned or .swap
    a partition directory  all its files in order of their names, left-overs last
    a data directory       its own files, then its partition directories

Damage never ends a dump: an invalid batch is shown as invalid, bytes that are no batch are counted, and the walk goes on at the
next valid batch. `damaged` tells afterwards whether there was any. A torn tail is not counted as damage: the active segment of
a running broker may end like that.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from milepost.codec.compression import decompress
from milepost.errors import MilepostError
from milepost.files import Disk, read_file
from milepost.inspect import index_files
from milepost.inspect.dump import index_remarks
from milepost.inspect.dump.decoders import StringDecoder, decoder_for
from milepost.inspect.dump.filters import Filter
from milepost.inspect.dump.index_remarks import Remark
from milepost.inspect.index_files import IndexFile
from milepost.inspect.log_file import Damage, LogFile
from milepost.inspect.paths import (
    FileKind,
    FileName,
    PathKind,
    ensure_regular,
    files_in,
    is_directory,
    look_at,
    partitions_in,
    read_name,
)
from milepost.inspect.transaction_states import TransactionStates
from milepost.log.directory.checkpoints import read_offset_checkpoint
from milepost.log.directory.meta_properties import MetaProperties, read_meta_properties
from milepost.log.directory.partition_metadata import PartitionMetadata, read_partition_metadata
from milepost.log.epochs import EpochEntry, LeaderEpochCache
from milepost.log.producer_state.snapshot import SnapshotEntry, decode_snapshot
from milepost.record.batch import RecordBatch
from milepost.record.batches import AnyBatch, iter_batches
from milepost.record.legacy import LegacyBatch
from milepost.record.records import Record
from milepost.segment.offset_index import OffsetPosition
from milepost.segment.time_index import TimestampOffset
from milepost.segment.txn_index import AbortedTransaction
from milepost.topic_partition import TopicPartition

T = TypeVar("T")
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Options:
    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    max_bytes: int | None = None
    decoder: str = "auto"
    tool: str = "4.3"
    filter: Filter = field(default_factory=Filter)

    @property
    def shows_records(self) -> bool:
        return self.deep_iteration or self.print_data_log


@dataclass(frozen=True, slots=True)
class MessageCrc:
    """Records of magic 0 and 1 carry their own checksum, inside a compressed set too."""

    crc: int
    is_valid: bool


class View(Protocol):
    """How a dump looks."""

    def file(self, path: str, name: FileName) -> None: ...
    def batch(self, position: int, batch: AnyBatch, is_valid: bool) -> None: ...
    def record(self, batch: AnyBatch, record: Record, decoder: StringDecoder, message: MessageCrc | None) -> None: ...
    def damage(self, path: str, damage: Damage) -> None: ...
    def unreadable(self, path: str, position: int, error: MilepostError) -> None: ...
    def offset_entry(self, entry: OffsetPosition) -> None: ...
    def time_entry(self, entry: TimestampOffset) -> None: ...
    def empty(self, path: str) -> None: ...
    def aborted_transaction(self, entry: AbortedTransaction) -> None: ...
    def producer(self, entry: SnapshotEntry) -> None: ...
    def epoch(self, entry: EpochEntry) -> None: ...
    def checkpoint(self, partition: TopicPartition, offset: int) -> None: ...
    def partition_metadata(self, metadata: PartitionMetadata) -> None: ...
    def meta_properties(self, meta: MetaProperties) -> None: ...
    def small_file(self, content: bytes) -> None: ...
    def remark(self, remark: Remark) -> None: ...
    def ignored(self, path: str, kind: FileKind) -> None: ...
    def failed(self, path: str, reason: str) -> None: ...
    def finish(self) -> None: ...


class Dump:
    def __init__(self, disk: Disk, options: Options, view: View, progress: Progress = lambda done: None):
        self.disk = disk
        self.options = options
        self.view = view
        self.progress = progress
        self.damaged = False
        self._states: dict[str, TransactionStates] = {}

    def path(self, path: str) -> None:
        target = look_at(self.disk, path)
        if target.kind is PathKind.FILE:
            self.file(target.path)
        elif target.kind is PathKind.PARTITION:
            self._partition(target.path)
        else:
            self._data_directory(target.path)

    def _data_directory(self, path: str) -> None:
        partitions = partitions_in(self.disk, path)
        for name in sorted(self.disk.listdir(path)):
            if name not in partitions and not is_directory(self.disk, f"{path}/{name}"):
                self._listed(f"{path}/{name}", read_name(name))
        for name in partitions:
            self._partition(f"{path}/{name}")

    def _partition(self, path: str) -> None:
        for name in sorted(files_in(self.disk, path), key=lambda name: (name.left_over != "", name.name)):
            self._listed(f"{path}/{name.name}", name)

    def _listed(self, path: str, name: FileName) -> None:
        """A file that nobody asked for by name: one that cannot be read does not keep the others from being shown."""
        if name.kind is FileKind.LOCK:
            return
        try:
            self._file(path, name)
        except OSError as error:
            self.damaged = True
            self.view.failed(path, error.strerror or str(error))

    def file(self, path: str) -> None:
        self._file(path, read_name(posixpath.basename(path)))

    def _file(self, path: str, name: FileName) -> None:
        shows: dict[FileKind, Callable[[str, FileName], None]] = {
            FileKind.LOG: self._log,
            FileKind.OFFSET_INDEX: self._offset_index,
            FileKind.TIME_INDEX: self._time_index,
            FileKind.TXN_INDEX: self._txn_index,
            FileKind.SNAPSHOT: self._snapshot,
            FileKind.LEADER_EPOCHS: self._epochs,
            FileKind.PARTITION_METADATA: self._partition_metadata,
            FileKind.CHECKPOINT: self._checkpoint,
            FileKind.META_PROPERTIES: self._meta_properties,
            FileKind.CLEAN_SHUTDOWN: self._small,
        }
        show = shows.get(name.kind)
        if show is None:
            self.view.ignored(path, name.kind)
            return
        try:
            ensure_regular(self.disk, path)
            self.view.file(path, name)
            show(path, name)
        except MilepostError as error:
            self.damaged = True
            self.view.failed(path, str(error))

    # The log.

    def _log(self, path: str, name: FileName) -> None:
        options, chosen = self.options, self.options.filter
        directory = posixpath.dirname(path) or "."
        decoder = decoder_for(posixpath.basename(posixpath.abspath(directory)), options.decoder, options.tool)
        state_of = self._states_in(directory).of if chosen.transaction_state is not None else None
        with LogFile(self.disk, path, name.base_offset or 0) as log:
            for position, found in log.walk(options.max_bytes, check_offsets=False):
                if isinstance(found, Damage):
                    self._damage(log, found, decoder)
                elif chosen.may_show(found, state_of):
                    self._batch(path, position, found, decoder)
                self.progress(position)

    def _states_in(self, directory: str) -> TransactionStates:
        if directory not in self._states:
            self._states[directory] = TransactionStates(self.disk, directory)
        return self._states[directory]

    def _damage(self, log: LogFile, damage: Damage, decoder: StringDecoder) -> None:
        if damage.is_tail and self.options.max_bytes is not None:
            return  # the limit cut the batch, not the disk
        header = damage.batch
        if header is not None and header.size <= damage.size:
            self.damaged = True
            data = log.read(damage.position, header.size)
            self._batch(log.path, damage.position, RecordBatch(data) if header.magic >= 2 else LegacyBatch(data), decoder, False)
        self.damaged = self.damaged or not damage.looks_torn
        self.view.damage(log.path, damage)

    def _batch(self, path: str, position: int, batch: AnyBatch, decoder: StringDecoder, is_valid: bool = True) -> None:
        chosen = self.options.filter
        records: list[Record] = []
        if self.options.shows_records or chosen.looks_at_records:
            try:
                records = batch.records(where=path)
                messages = message_crcs(batch)
            except MilepostError as error:
                self.damaged = True
                self.view.batch(position, batch, is_valid)
                self.view.unreadable(path, position, error)
                return
        kept = [place for place, record in enumerate(records) if chosen.shows(record)]
        if records and not kept:
            return
        self.view.batch(position, batch, is_valid)
        if self.options.shows_records:
            for place in kept:
                self.view.record(batch, records[place], decoder, messages[place] if messages else None)

    # The other files.

    def _offset_index(self, path: str, name: FileName) -> None:
        index = index_files.read_offset_index(self.disk, path, name.base_offset or 0)
        self._entries(path, index, index_files.offset_entries(index), self.view.offset_entry)
        self._remarks(index_remarks.on_offset_index(self.disk, index))

    def _time_index(self, path: str, name: FileName) -> None:
        index = index_files.read_time_index(self.disk, path, name.base_offset or 0)
        self._entries(path, index, index_files.time_entries(index), self.view.time_entry)
        self._remarks(index_remarks.on_time_index(self.disk, index))

    def _entries(self, path: str, index: IndexFile, entries: Iterator[T], show: Callable[[T], None]) -> None:
        if not index.entries:
            self.view.empty(path)
        for entry in entries:
            show(entry)

    def _remarks(self, remarks: list[Remark]) -> None:
        for remark in remarks:
            self.damaged = self.damaged or remark.is_damage
            self.view.remark(remark)

    def _txn_index(self, path: str, name: FileName) -> None:
        for entry in index_files.read_txn_index(self.disk, path)[0]:
            self.view.aborted_transaction(entry)

    def _snapshot(self, path: str, name: FileName) -> None:
        for entry in decode_snapshot(read_file(self.disk, path), path):
            self.view.producer(entry)

    def _epochs(self, path: str, name: FileName) -> None:
        for entry in LeaderEpochCache.read(path, self.disk):
            self.view.epoch(entry)

    def _checkpoint(self, path: str, name: FileName) -> None:
        for partition, offset in read_offset_checkpoint(self.disk, path).items():
            self.view.checkpoint(partition, offset)

    def _partition_metadata(self, path: str, name: FileName) -> None:
        metadata = read_partition_metadata(self.disk, path)
        if metadata is not None:
            self.view.partition_metadata(metadata)

    def _meta_properties(self, path: str, name: FileName) -> None:
        meta = read_meta_properties(self.disk, path)
        if meta is not None:
            self.view.meta_properties(meta)

    def _small(self, path: str, name: FileName) -> None:
        self.view.small_file(read_file(self.disk, path, 1 << 20))


def message_crcs(batch: AnyBatch) -> list[MessageCrc] | None:
    """The checksums of the single messages of an old format, in the order of its records; None for magic 2."""
    if batch.magic >= 2:
        return None
    if not batch.is_compressed:
        return [MessageCrc(batch.crc, batch.is_valid())]
    data = decompress(batch.codec, batch.payload(), magic=batch.magic)
    return [MessageCrc(message.crc, message.is_valid()) for message in iter_batches(data)]


def log_bytes(disk: Disk, path: str) -> int:
    """How many bytes of `.log` files a path stands for: what a progress bar counts."""
    target = look_at(disk, path)
    if target.kind is PathKind.FILE:
        return disk.stat(target.path).st_size
    places = [target.path] if target.kind is PathKind.PARTITION else [f"{path}/{name}" for name in partitions_in(disk, path)]
    files = [f"{place}/{name.name}" for place in places for name in files_in(disk, place) if name.kind is FileKind.LOG]
    # A running broker may remove one meanwhile.
    return sum(disk.stat(file).st_size for file in files if disk.exists(file))

