"""The transactional ids this broker coordinates: loaded from `__transaction_state`, changed only through it.

An id belongs to the partition that its hash gives. `load` reads a partition from its start; until then, and after `unload`, its ids get
NOT_COORDINATOR. A change is written first and believed when the log says that it is committed: what was answered to a client is in the
log. While a change is being written the id is busy, and a second one is refused.

    the log says                                     the client gets
    0                                                0
    3, 7, 19, 20: not written, or not everywhere     15 COORDINATOR_NOT_AVAILABLE: ask again
    6, 56: no longer the leader, or the disk failed  16 NOT_COORDINATOR: ask another broker
    10, 18: the record is too large                  48 INVALID_TXN_STATE: a transaction cannot hold so many partitions
    anything else                                    15. Never -1, which some clients take for success (franz-go met it in EndTxn)
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from milepost.coordinator.hashing import partition_of
from milepost.coordinator.transactions.pending_markers import PendingMarkers
from milepost.coordinator.transactions.transaction import EMPTY, ENDING, ONGOING, TransactionMetadata
from milepost.coordinator.transactions.transaction_records import decode_record, encode_metadata, encode_tombstone
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batch import NO_PRODUCER_EPOCH
from milepost.record.records import Record

if TYPE_CHECKING:
    from milepost.coordinator.interfaces import CoordinatorLog, Work

logger = logging.getLogger("milepost.coordinator")

# A batch of tombstones stays well below any sensible max.message.bytes.
TOMBSTONES_AT_ONCE = 1000
TOMBSTONE_BYTES_AT_ONCE = 262_144
ID_BYTES = 800

ANSWER_FOR = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_TXN_STATE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_TXN_STATE,
}

Done = Callable[[ErrorCode], None]


@dataclass(slots=True, eq=False)
class TransactionalId:
    """What is in memory about one transactional id: its metadata as the log has it, and the change that is under way."""

    metadata: TransactionMetadata
    partition: int
    coordinator_epoch: int
    is_writing: bool = False
    markers: PendingMarkers | None = None

    @property
    def name(self) -> str:
        return self.metadata.transactional_id

    @property
    def is_busy(self) -> bool:
        """Whether a change is being written, or the markers of the last transaction are not all there."""
        return self.is_writing or self.metadata.state in ENDING


@dataclass(slots=True)
class LoadedPartition:
    coordinator_epoch: int
    ids: dict[str, TransactionalId] = field(default_factory=dict)


class TransactionRegistry:
    def __init__(self, log: CoordinatorLog, transaction_version: int, changed: Callable[[str], None]):
        """`changed` is called with an id that is no longer busy, or no longer here."""
        self._log = log
        self.transaction_version = transaction_version
        self._changed = changed
        self._loaded: dict[int, LoadedPartition] = {}
        self._expected: set[int] = set()
        self.ongoing: dict[str, TransactionalId] = {}
        self.unused: dict[str, TransactionalId] = {}
        """Ids without a transaction since their producer began, the one that began first at the front."""
        self._unused_bytes = 0

    def partition_for(self, transactional_id: str) -> int:
        return partition_of(transactional_id, self._log.partition_count)

    @property
    def partition_count(self) -> int:
        return self._log.partition_count

    def __iter__(self) -> Iterator[TransactionalId]:
        for loaded in self._loaded.values():
            yield from loaded.ids.values()

    # Partitions that come and go.

    def expect(self, partition: int) -> None:
        """It is ours, and will be loaded when it may be."""
        self.unload(partition)
        self._expected.add(partition)

    def load(self, partition: int, coordinator_epoch: int) -> list[TransactionalId]:
        """Read a partition; its ids whose transactions were ending when the log stopped."""
        self.unload(partition)
        loaded = LoadedPartition(coordinator_epoch)
        for batch in self._log.batches(partition):
            if batch.is_control:
                continue
            for record in batch.records():
                self._replay(record, loaded, partition)
        self._loaded[partition] = loaded
        for entry in loaded.ids.values():
            self._track(entry)
        return [entry for entry in loaded.ids.values() if entry.metadata.state in ENDING]

    def _replay(self, record: Record, loaded: LoadedPartition, partition: int) -> None:
        try:
            decoded = decode_record(record)
        except MilepostError as damage:
            logger.error("__transaction_state-%d, offset %d: %s; the record is left out", partition, record.offset, damage)
            return
        if decoded is None:
            logger.warning("__transaction_state-%d, offset %d: a record of a later Kafka is left out", partition, record.offset)
            return
        transactional_id, metadata = decoded
        if metadata is None:
            loaded.ids.pop(transactional_id, None)
        else:
            loaded.ids[transactional_id] = TransactionalId(metadata, partition, loaded.coordinator_epoch)

    def unload(self, partition: int) -> None:
        self._expected.discard(partition)
        loaded = self._loaded.pop(partition, None)
        if loaded is not None:
            for entry in loaded.ids.values():
                if entry.markers is not None:
                    entry.markers.stop()
                self._forget(entry)
                self._changed(entry.name)

    # Ids.

    def find(self, transactional_id: str) -> TransactionalId | ErrorCode | None:
        """None: it is ours, and not known."""
        partition = self.partition_for(transactional_id)
        loaded = self._loaded.get(partition)
        if loaded is None:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition in self._expected else ErrorCode.NOT_COORDINATOR
        return loaded.ids.get(transactional_id)

    def holds(self, entry: TransactionalId) -> bool:
        loaded = self._loaded.get(entry.partition)
        return loaded is not None and loaded.ids.get(entry.name) is entry

    def add(self, metadata: TransactionMetadata) -> TransactionalId:
        """An id that is not in the log yet: it stays when its first record is written."""
        partition = self.partition_for(metadata.transactional_id)
        loaded = self._loaded[partition]
        entry = TransactionalId(metadata, partition, loaded.coordinator_epoch)
        loaded.ids[entry.name] = entry
        return entry

    def write(self, entry: TransactionalId, metadata: TransactionMetadata, done: Done) -> None:
        """Write the next metadata of an id, and believe it once it is committed."""
        assert not entry.is_writing, f"two changes of transactional id {entry.name!r} at once"
        entry.is_writing = True

        def written(code: int) -> None:
            if not self.holds(entry):
                done(ErrorCode.NOT_COORDINATOR)
                return
            entry.is_writing = False
            if code == ErrorCode.NONE:
                entry.metadata = metadata
                self._track(entry)
            else:
                self._refused(entry, code)
            done(answer_for(code))
            self._changed(entry.name)

        self._log.append(entry.partition, [encode_metadata(metadata, self.transaction_version)], written)

    def _refused(self, entry: TransactionalId, code: int) -> None:
        logger.warning(
            "transactional id %r: a change could not be written to __transaction_state-%d, error %d",
            entry.name,
            entry.partition,
            code,
        )
        if entry.metadata.producer_epoch == NO_PRODUCER_EPOCH:
            del self._loaded[entry.partition].ids[entry.name]

    def _track(self, entry: TransactionalId) -> None:
        self._forget(entry)
        if entry.metadata.state is ONGOING:
            self.ongoing[entry.name] = entry
        elif entry.metadata.state is EMPTY:
            self.unused[entry.name] = entry
            self._unused_bytes += size_of(entry)

    def _forget(self, entry: TransactionalId) -> None:
        self.ongoing.pop(entry.name, None)
        if self.unused.pop(entry.name, None) is not None:
            self._unused_bytes -= size_of(entry)

    def make_room(self, now_ms: int, most_bytes: int) -> None:
        """Anybody may ask for a producer under any name: of ids that were never used for anything, the oldest go for new ones."""
        while self._unused_bytes > most_bytes:
            entry = next(iter(self.unused.values()))
            self._forget(entry)
            if not entry.is_writing:
                self._remove(entry.partition, self._loaded[entry.partition], [entry], now_ms)

    # Expiry.

    def removing_expired(self, now_ms: int, expiration_ms: int) -> Work[None]:
        """Forget ids that have rested for `expiration_ms`, in the log and here."""

        def has_expired(entry: TransactionalId) -> bool:
            return not entry.is_writing and entry.metadata.is_expired(now_ms, expiration_ms)

        for partition, loaded in list(self._loaded.items()):
            expired = []
            for entry in list(loaded.ids.values()):
                if has_expired(entry):
                    expired.append(entry)
                yield
            for chunk in chunks(expired):
                still = [entry for entry in chunk if self.holds(entry) and has_expired(entry)]
                if still:
                    self._remove(partition, loaded, still, now_ms)
                yield

    def _remove(self, partition: int, loaded: LoadedPartition, entries: list[TransactionalId], now_ms: int) -> None:
        for entry in entries:
            entry.is_writing = True

        def written(code: int) -> None:
            for entry in entries:
                entry.is_writing = False
                if code == ErrorCode.NONE and loaded.ids.get(entry.name) is entry:
                    del loaded.ids[entry.name]
                    self._forget(entry)
            if self._loaded.get(partition) is loaded:
                for entry in entries:
                    self._changed(entry.name)

        self._log.append(partition, [encode_tombstone(entry.name, now_ms) for entry in entries], written)


def size_of(entry: TransactionalId) -> int:
    """About what it takes in memory."""
    return ID_BYTES + len(entry.name)


def answer_for(code: int) -> ErrorCode:
    return ANSWER_FOR.get(code, ErrorCode.COORDINATOR_NOT_AVAILABLE)  # type: ignore[call-overload,no-any-return]


def chunks(entries: list[TransactionalId]) -> Iterator[list[TransactionalId]]:
    chunk: list[TransactionalId] = []
    size = 0
    for entry in entries:
        if chunk and (len(chunk) == TOMBSTONES_AT_ONCE or size + len(entry.name) > TOMBSTONE_BYTES_AT_ONCE):
            yield chunk
            chunk, size = [], 0
        chunk.append(entry)
        size += len(entry.name)
    if chunk:
        yield chunk
