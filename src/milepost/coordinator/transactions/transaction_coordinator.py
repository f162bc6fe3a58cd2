"""The transaction coordinator: gives out producer ids, keeps the state of every transactional id, and ends transactions.

A transaction is a conversation:

    InitProducerId   the id gets its producer; the producer that had it before is fenced, and the transaction it left open is aborted
    add partitions   each partition is written into the transaction before it gets the first record
    EndTxn           PrepareCommit or PrepareAbort is written: from here on there is no way back. Every partition gets its marker,
                     then Complete* is written; the answer waits for none of that

Every step is in `__transaction_state` before it is answered. After a crash a transaction is where the log says: an open one goes on, or
runs into its timeout; one that was ending gets its markers again.

**Partitions are added in three ways.** Clients up to AddPartitionsToTxn 3 ask for it themselves, and the leader of the partition asks back
with `verify` before it takes the first record (KIP-890, part 1): a record that comes too late is refused, instead of holding up readers for
ever. Clients that send Produce 12 or TxnOffsetCommit 5 do not ask: the leader calls `add_partitions_implicitly` (part 2). If the last
transaction is still ending then, it waits a little, since the client could do nothing else. `transaction_admission` has the leader's view.

**Time.** A transaction that is open for longer than its producer allowed is aborted with a raised epoch; they are looked for every 10 s. An
id that rested for 7 days is forgotten.

Error codes are those of the newest versions: for older clients the handlers turn PRODUCER_FENCED (90) into INVALID_PRODUCER_EPOCH (47).
An answer is the last thing a request does here, because the next request may be handled before the answer returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from milepost.coordinator.transactions.pending_markers import PendingMarkers, WriteMarkers
from milepost.coordinator.transactions.transaction import (
    ENDING,
    EPOCH_BUMP_VERSION,
    NO_PRODUCER,
    PREPARE_ABORT,
    AllocateProducerId,
    Producer,
    TransactionMetadata,
)
from milepost.coordinator.transactions.transaction_registry import TransactionalId, TransactionRegistry
from milepost.coordinator.transactions.transaction_settings import TransactionSettings
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.clock import Clock
    from milepost.coordinator.interfaces import CoordinatorLog, Work
    from milepost.loop import Timer, Timers

logger = logging.getLogger("milepost.coordinator")

COMPLETE_RETRY_SECONDS = 0.1
PIECES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ProducerAnswer:
    """To InitProducerId and EndTxn: an error, or who the producer is from now on."""

    error: ErrorCode
    producer: Producer = NO_PRODUCER


@dataclass(slots=True, eq=False)
class Waiter:
    """A request that waits for its transactional id to be free."""

    entry: TransactionalId
    task: Callable[[], None]
    timer: Timer | None = None


OnProducer = Callable[[ProducerAnswer], None]
OnError = Callable[[ErrorCode], None]


class TransactionCoordinator:
    def __init__(
        self,
        log: CoordinatorLog,
        timers: Timers,
        clock: Clock,
        write_markers: WriteMarkers,
        allocate_producer_id: AllocateProducerId,
        settings: TransactionSettings | None = None,
    ):
        self.settings = settings or TransactionSettings()
        self._timers = timers
        self._clock = clock
        self._write_markers = write_markers
        self._allocate_producer_id = allocate_producer_id
        self._waiters: dict[str, list[Waiter]] = {}
        self._registry = TransactionRegistry(log, self.settings.transaction_version, self._wake)
        self._repeating: dict[str, Timer] = {}

    # Life.

    def start(self) -> None:
        self._repeat("abort", self.settings.abort_interval_ms, self.abort_timed_out)
        self._repeat("expire", self.settings.remove_expired_interval_ms, self.remove_expired)

    def close(self) -> None:
        for timer in self._repeating.values():
            timer.cancel()
        self._repeating.clear()

    def _repeat(self, name: str, interval_ms: int, task: Callable[[], None]) -> None:
        def run() -> None:
            self._repeat(name, interval_ms, task)
            task()

        self._repeating[name] = self._timers.later(interval_ms / 1000, run)

    def use_transaction_version(self, level: int) -> None:
        """The feature transaction.version was moved: records and aborts of our own are of that version from now on."""
        self.settings = replace(self.settings, transaction_version=level)
        self._registry.transaction_version = level

    def partition_for(self, transactional_id: str) -> int:
        return self._registry.partition_for(transactional_id)

    def expect(self, partition: int) -> None:
        """This broker leads the partition now, and may not believe yet what is in it."""
        self._registry.expect(partition)

    def load(self, partition: int, coordinator_epoch: int = 0) -> None:
        """Become the coordinator of a partition of `__transaction_state`: read it, and finish what was ending."""
        for entry in self._registry.load(partition, coordinator_epoch):
            self._send_markers(entry)

    def load_all(self) -> None:
        """This broker leads every partition."""
        for partition in range(self._registry.partition_count):
            self.load(partition)

    def unload_all(self) -> None:
        for partition in range(self._registry.partition_count):
            self.unload(partition)

    def unload(self, partition: int) -> None:
        self._registry.unload(partition)

    # InitProducerId.

    def init_producer_id(self, transactional_id: str | None, timeout_ms: int, known: Producer | None, answer: OnProducer) -> None:
        """A producer for a transactional id, or for nobody in particular. `known` is what a recovering producer calls itself."""
        if transactional_id is not None and not transactional_id:
            answer(ProducerAnswer(ErrorCode.INVALID_REQUEST))
            return
        if transactional_id is not None and not 0 < timeout_ms <= self.settings.max_timeout_ms:
            answer(ProducerAnswer(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
            return
        given: ProducerAnswer | tuple[TransactionalId, TransactionMetadata]
        try:
            if transactional_id is None:
                given = ProducerAnswer(ErrorCode.NONE, Producer(self._allocate_producer_id(), 0))
            else:
                given = self._initialize(transactional_id, timeout_ms, known)
        except (MilepostError, OSError) as error:
            given = ProducerAnswer(no_producer_id(transactional_id, error))
        if isinstance(given, ProducerAnswer):
            answer(given)
            return
        entry, changed = given
        if changed.state is PREPARE_ABORT:
            # Whoever left this transaction open is fenced. The client asks again and gets the epoch after that.
            self._end(entry, changed, lambda ended: answer(ProducerAnswer(ended.error or ErrorCode.CONCURRENT_TRANSACTIONS)))
        else:
            self._registry.write(entry, changed, lambda error: answer(producer_answer(error, changed)))
            self._registry.make_room(self._clock.now_ms(), self.settings.most_unused_bytes)

    @property
    def unused_ids(self) -> int:
        return len(self._registry.unused)

    def _initialize(
        self, transactional_id: str, timeout_ms: int, known: Producer | None
    ) -> ProducerAnswer | tuple[TransactionalId, TransactionMetadata]:
        now_ms = self._clock.now_ms()
        entry = self._registry.find(transactional_id)
        if entry is None:
            metadata = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=self._allocate_producer_id(),
                timeout_ms=timeout_ms,
                last_update_timestamp=now_ms,
            )
            entry = self._registry.add(metadata)
        if isinstance(entry, ErrorCode):
            return ProducerAnswer(entry)
        if entry.is_busy:
            return ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
        version = self.settings.transaction_version
        changed = entry.metadata.initialize(timeout_ms, known, version, self._allocate_producer_id, now_ms)
        return ProducerAnswer(changed) if isinstance(changed, ErrorCode) else (entry, changed)

    # Partitions of a transaction.

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        answer: OnError,
        client_version: int = 0,
    ) -> None:
        """All of them become part of the transaction, or none."""
        entry = self._find_known(transactional_id)
        if isinstance(entry, ErrorCode):
            answer(entry)
        elif entry.is_busy:
            # Before the producer is looked at: the end that is under way may give it a new id, which it knows already.
            answer(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif error := fault_of(entry.metadata, producer):
            answer(error)
        elif entry.metadata.partitions.issuperset(partitions):
            answer(ErrorCode.NONE)
        else:
            self._registry.write(entry, entry.metadata.add(partitions, client_version, self._clock.now_ms()), answer)

    def add_partitions_implicitly(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], answer: OnError
    ) -> None:
        """The same for a client that leaves it to us; while the id is busy it waits, for at most 100 ms."""

        def add() -> None:
            self.add_partitions(transactional_id, producer, partitions, answer, EPOCH_BUMP_VERSION)

        entry = self._find_known(transactional_id)
        if isinstance(entry, ErrorCode) or not entry.is_busy:
            add()
        else:
            self._wait(transactional_id, entry, add)

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Whether each partition is part of the producer's open transaction; TRANSACTION_ABORTABLE if it is not."""
        entry = self._find_known(transactional_id)
        if isinstance(entry, ErrorCode):
            return dict.fromkeys(partitions, entry)
        metadata = entry.metadata
        if error := fault_of(metadata, producer):
            return dict.fromkeys(partitions, error)
        if metadata.state in ENDING:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        return {name: ErrorCode.NONE if name in metadata.partitions else ErrorCode.TRANSACTION_ABORTABLE for name in partitions}

    def _wait(self, transactional_id: str, entry: TransactionalId, task: Callable[[], None]) -> None:
        """Run `task` once the id is no longer busy, or no longer ours, or after the longest wait; once."""
        waiter = Waiter(entry, task)
        self._waiters.setdefault(transactional_id, []).append(waiter)
        waiter.timer = self._timers.later(
            self.settings.add_partitions_wait_ms / 1000, lambda: self._finish_waiter(transactional_id, waiter)
        )

    def _wake(self, transactional_id: str) -> None:
        """The id is no longer busy, or no longer ours: whoever waits for it may go on."""
        for waiter in list(self._waiters.get(transactional_id, ())):
            if not (self._registry.holds(waiter.entry) and waiter.entry.is_busy):
                self._finish_waiter(transactional_id, waiter)

    def _finish_waiter(self, transactional_id: str, waiter: Waiter) -> None:
        waiting = self._waiters.get(transactional_id, [])
        if waiter not in waiting:
            return
        waiting.remove(waiter)
        if not waiting:
            del self._waiters[transactional_id]
        if waiter.timer is not None:
            waiter.timer.cancel()
        waiter.task()

    # The end of a transaction.

    def end(
        self, transactional_id: str, producer: Producer, committed: bool, answer: OnProducer, client_version: int = 0
    ) -> None:
        entry = self._find_known(transactional_id)
        if isinstance(entry, ErrorCode):
            answer(ProducerAnswer(entry))
            return
        try:
            changed = entry.metadata.end(producer, committed, client_version, self._allocate_producer_id, self._clock.now_ms())
        except (MilepostError, OSError) as error:
            changed = no_producer_id(transactional_id, error)
        if isinstance(changed, ErrorCode):
            answer(producer_answer(changed, entry.metadata))
        elif entry.is_busy:
            answer(ProducerAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        else:
            self._end(entry, changed, answer)

    def _end(self, entry: TransactionalId, prepared: TransactionMetadata, answer: OnProducer) -> None:
        def written(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self._send_markers(entry)
            answer(producer_answer(error, prepared))

        self._registry.write(entry, prepared, written)

    def _send_markers(self, entry: TransactionalId) -> None:
        entry.markers = PendingMarkers(
            entry.metadata, entry.coordinator_epoch, self._write_markers, self._timers, lambda: self._complete(entry)
        )
        entry.markers.send()

    def _complete(self, entry: TransactionalId) -> None:
        entry.markers = None
        if not self._registry.holds(entry):
            return

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                # There is nobody left to be told: the markers are out, so it must be written.
                self._timers.later(COMPLETE_RETRY_SECONDS, lambda: self._complete(entry))

        self._registry.write(entry, entry.metadata.complete(self._clock.now_ms()), written)

    # Time.

    def abort_timed_out(self) -> None:
        now_ms = self._clock.now_ms()
        for entry in list(self._registry.ongoing.values()):
            metadata = entry.metadata
            if entry.is_busy or not metadata.is_timed_out(now_ms):
                continue
            logger.info(
                "transactional id %r: its transaction of producer %d epoch %d is open for longer than %d ms and is aborted",
                entry.name,
                metadata.producer_id,
                metadata.producer_epoch,
                metadata.timeout_ms,
            )
            try:
                fenced = metadata.fence(self.settings.transaction_version, self._allocate_producer_id, now_ms)
            except (MilepostError, OSError) as error:
                no_producer_id(entry.name, error)
            else:
                self._end(entry, fenced, lambda _: None)

    def remove_expired(self) -> None:
        self._go_on(self._registry.removing_expired(self._clock.now_ms(), self.settings.id_expiration_ms))

    def _go_on(self, work: Work[None]) -> None:
        """Some pieces of it; others are served before the next ones."""
        for _ in range(PIECES_AT_ONCE):
            try:
                next(work)
            except StopIteration:
                return
        self._timers.later(0, partial(self._go_on, work))

    # Looking at them.

    def describe(self, transactional_id: str) -> TransactionMetadata | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        entry = self._registry.find(transactional_id)
        if isinstance(entry, ErrorCode):
            return entry
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if entry is None else entry.metadata

    def all(self) -> list[TransactionMetadata]:
        return [entry.metadata for entry in self._registry]

    def _find_known(self, transactional_id: str) -> TransactionalId | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        entry = self._registry.find(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if entry is None else entry


def fault_of(metadata: TransactionMetadata, producer: Producer) -> ErrorCode:
    """What is wrong with a producer that claims this id; NONE if nothing is."""
    if producer.producer_id != metadata.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.producer_epoch != metadata.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def no_producer_id(transactional_id: str | None, error: Exception) -> ErrorCode:
    """What to answer when no producer ids could be claimed: after 14 every client asks again, and here."""
    logger.error("no producer id for transactional id %r: %s", transactional_id, error)
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def producer_answer(error: ErrorCode, metadata: TransactionMetadata) -> ProducerAnswer:
    return ProducerAnswer(error, NO_PRODUCER if error else metadata.producer_after_end)
