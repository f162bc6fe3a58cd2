"""One transactional id: its producer, where its transaction stands, and what may happen to it next.

A `TransactionMetadata` is what one record of `__transaction_state` says about an id. It never changes: what happens to the id gives the
next one, or the error code that the request gets instead. The coordinator writes the next one to the log before it believes it.

    number  state                entered by                                            from
    0       Empty                InitProducerId                                        Empty, CompleteCommit, CompleteAbort
    1       Ongoing              AddPartitionsToTxn, AddOffsetsToTxn, or by Produce    Empty, Ongoing, CompleteCommit, CompleteAbort
                                 and TxnOffsetCommit themselves (KIP-890)
    2       PrepareCommit        EndTxn                                                Ongoing
    3       PrepareAbort         EndTxn, a timeout, InitProducerId                     Ongoing; with version 2 also Empty, Complete*
    4       CompleteCommit       the last marker is written                            PrepareCommit
    5       CompleteAbort        the last marker is written                            PrepareAbort
    6       Dead                 expiry; never written, the record is a null value     Empty, CompleteCommit, CompleteAbort
    7       PrepareEpochFence    never written: fencing goes straight to PrepareAbort, with the epoch raised

**Epochs.** A producer is its id and its epoch; a request with another pair is fenced. InitProducerId raises the epoch. In version 2
of the protocol (KIP-890, EndTxn 5) every end of a transaction raises it too, so that a request that was delayed in the network cannot
reach the next transaction. The epoch 32767 is never given to a producer: there must always be one left to fence it with. At 32766
the id gets a new producer id instead, with epoch 0; in version 2 it waits in `next_producer_id` until the markers of the old one are out.

**Ending again.** The answer to EndTxn may get lost. In versions 0 and 1 the same result again on Complete* is a success. In version 2 the
epoch tells a repeated end (ours - 1) from the next one (ours):

    EndTxn 5          abort, repeated   abort         commit, repeated   commit
    Empty             fenced            ended empty   fenced             INVALID_TXN_STATE
    CompleteAbort     success           ended empty   INVALID_TXN_STATE  INVALID_TXN_STATE
    CompleteCommit    INVALID_TXN_STATE ended empty   success            INVALID_TXN_STATE

`last_producer_epoch`, the epoch before the one that InitProducerId gave, has no field in the record: a producer that repeats an
InitProducerId across a restart of its coordinator is fenced (as in Kafka).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from milepost.errors import InvalidArgument
from milepost.protocol.error_codes import ErrorCode
from milepost.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from milepost.record.internal_topics.transaction_state import TransactionState
from milepost.topic_partition import TopicPartition

EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

RESTING = frozenset({EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT})
ENDING = frozenset({PREPARE_COMMIT, PREPARE_ABORT})

ENTERED_FROM = {
    EMPTY: RESTING,
    ONGOING: RESTING | {ONGOING},
    PREPARE_COMMIT: frozenset({ONGOING}),
    PREPARE_ABORT: RESTING | {ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    COMPLETE_COMMIT: frozenset({PREPARE_COMMIT}),
    COMPLETE_ABORT: frozenset({PREPARE_ABORT}),
    TransactionState.DEAD: RESTING,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({ONGOING}),
}

LAST_USABLE_EPOCH = 32766
EPOCH_BUMP_VERSION = 2

AllocateProducerId = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer id with its epoch."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp: int = NO_TIMESTAMP
    last_update_timestamp: int
    client_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_USABLE_EPOCH

    @property
    def rotates(self) -> bool:
        """Whether the end of this transaction brings a new producer id."""
        return self.client_version >= EPOCH_BUMP_VERSION and self.next_producer_id != NO_PRODUCER_ID

    @property
    def producer_after_end(self) -> Producer:
        """Whom the producer is to call itself once this ending is answered."""
        return Producer(self.next_producer_id, 0) if self.rotates else Producer(self.producer_id, self.producer_epoch)

    def is_timed_out(self, now_ms: int) -> bool:
        return self.state is ONGOING and self.start_timestamp + self.timeout_ms < now_ms

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state in RESTING and self.last_update_timestamp + expiration_ms <= now_ms

    # What may happen.

    def initialize(
        self, timeout_ms: int, known: Producer | None, server_version: int, allocate: AllocateProducerId, now_ms: int
    ) -> TransactionMetadata | ErrorCode:
        """InitProducerId. `known` is the producer that the client believes to be, when it recovers from an error.

        An open transaction is aborted first: the answer has state PrepareAbort then, and the client must ask again.
        """
        if known is not None and not self._may_recover(known):
            return ErrorCode.PRODUCER_FENCED
        if self.state in ENDING:
            return ErrorCode.CONCURRENT_TRANSACTIONS
        if self.state is ONGOING:
            if known is not None and known.producer_epoch not in (self.producer_epoch, self.last_producer_epoch):
                # Kafka lets a producer with an old epoch abort the transaction of the one that replaced it.
                return ErrorCode.PRODUCER_FENCED
            return self.fence(server_version, allocate, now_ms)
        if self.is_epoch_exhausted and (known is None or known.producer_epoch == self.producer_epoch):
            last_epoch = NO_PRODUCER_EPOCH if known is None else self.producer_epoch
            return self._initialized(Producer(allocate(), 0), last_epoch, timeout_ms, now_ms)
        if known is None:
            return self._initialized(self._raised(), NO_PRODUCER_EPOCH, timeout_ms, now_ms)
        if self.producer_epoch in (NO_PRODUCER_EPOCH, known.producer_epoch):
            return self._initialized(self._raised(), self.producer_epoch, timeout_ms, now_ms)
        if known.producer_epoch == self.last_producer_epoch:
            # The answer to this very request got lost. Nobody else initialized meanwhile: that would have cleared the last epoch.
            current = Producer(self.producer_id, self.producer_epoch)
            return self._initialized(current, self.last_producer_epoch, timeout_ms, now_ms)
        return ErrorCode.PRODUCER_FENCED

    def add(self, partitions: Iterable[TopicPartition], client_version: int, now_ms: int) -> TransactionMetadata:
        """The transaction goes on with these partitions too, or begins with them."""
        return self._to(
            ONGOING,
            now_ms,
            partitions=self.partitions.union(partitions),
            start_timestamp=self.start_timestamp if self.state is ONGOING else now_ms,
            client_version=client_version,
        )

    def end(
        self, producer: Producer, committed: bool, client_version: int, allocate: AllocateProducerId, now_ms: int
    ) -> TransactionMetadata | ErrorCode:
        """EndTxn. The code NONE means that it has ended so already."""
        if client_version >= EPOCH_BUMP_VERSION:
            return self._end_and_bump(producer, committed, client_version, allocate, now_ms)
        if producer.producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.producer_epoch != self.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        if self.state is ONGOING:
            return self._to(PREPARE_COMMIT if committed else PREPARE_ABORT, now_ms, client_version=client_version)
        return self._already_ended(committed)

    def fence(self, server_version: int, allocate: AllocateProducerId, now_ms: int) -> TransactionMetadata:
        """Abort the open transaction without being asked by its producer, which finds its epoch gone."""
        if server_version >= EPOCH_BUMP_VERSION:
            return self._bumped(PREPARE_ABORT, server_version, allocate, now_ms)
        return self._to(
            PREPARE_ABORT,
            now_ms,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            client_version=server_version,
        )

    def complete(self, now_ms: int) -> TransactionMetadata:
        """All markers are written."""
        producer = self.producer_after_end
        return self._to(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    # Inside.

    def _may_recover(self, known: Producer) -> bool:
        return (
            self.producer_epoch == NO_PRODUCER_EPOCH
            or known.producer_id == self.producer_id
            or (known.producer_id == self.previous_producer_id and known.producer_epoch >= LAST_USABLE_EPOCH)
        )

    def _raised(self) -> Producer:
        return Producer(self.producer_id, self.producer_epoch + 1)

    def _initialized(self, producer: Producer, last_epoch: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
        return self._to(
            EMPTY,
            now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_timestamp=NO_TIMESTAMP,
        )

    def _end_and_bump(
        self, producer: Producer, committed: bool, client_version: int, allocate: AllocateProducerId, now_ms: int
    ) -> TransactionMetadata | ErrorCode:
        overflowed = Producer(self.previous_producer_id, LAST_USABLE_EPOCH) == producer and self.producer_epoch == 0
        if producer.producer_id != self.producer_id and not overflowed:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        is_current = producer == Producer(self.producer_id, self.producer_epoch)
        is_repeated = overflowed or producer.producer_epoch + 1 == self.producer_epoch
        if is_current and self.state is ONGOING:
            return self._bumped(PREPARE_COMMIT if committed else PREPARE_ABORT, client_version, allocate, now_ms)
        if is_repeated and self.state not in (ONGOING, EMPTY):
            return self._already_ended(committed)
        if is_current and self.state in RESTING:
            if committed:
                return ErrorCode.INVALID_TXN_STATE
            # A producer may abort before any partition was added: it cannot know whether its first Produce arrived.
            return self._bumped(PREPARE_ABORT, client_version, allocate, now_ms)
        return ErrorCode.PRODUCER_FENCED

    def _bumped(
        self, state: TransactionState, client_version: int, allocate: AllocateProducerId, now_ms: int
    ) -> TransactionMetadata:
        return self._to(
            state,
            now_ms,
            producer_epoch=self.producer_epoch + 1,
            last_producer_epoch=self.producer_epoch,
            next_producer_id=allocate() if self.is_epoch_exhausted else NO_PRODUCER_ID,
            start_timestamp=self.start_timestamp if self.state is ONGOING else now_ms,
            client_version=client_version,
        )

    def _already_ended(self, committed: bool) -> ErrorCode:
        if self.state is (COMPLETE_COMMIT if committed else COMPLETE_ABORT):
            return ErrorCode.NONE
        if self.state is (PREPARE_COMMIT if committed else PREPARE_ABORT):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.INVALID_TXN_STATE

    def _to(self, state: TransactionState, now_ms: int, **changes: Any) -> TransactionMetadata:
        if self.state not in ENTERED_FROM[state]:
            raise InvalidArgument(
                f"transactional id {self.transactional_id!r} cannot go from {self.state.kafka_name} to {state.kafka_name}"
            )
        # The id before this step, also when it stays: a producer that missed a new one still asks with the old.
        return replace(self, state=state, previous_producer_id=self.producer_id, last_update_timestamp=now_ms, **changes)
