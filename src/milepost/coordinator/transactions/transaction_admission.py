"""What the leader of a partition asks before the first record of a transaction is appended there (KIP-890).

By the version of the request that brings the records:

    Produce     TxnOffsetCommit   the partition                  not part of the transaction
    3 to 10     0 to 3            must have been added           48 INVALID_TXN_STATE, which ends the producer
    11          4                 must have been added           120 TRANSACTION_ABORTABLE
    12 and up   5 and up          is added now (version 2)       -

Fencing is 47 INVALID_PRODUCER_EPOCH here, in every version. What only means "not now" becomes 19 NOT_ENOUGH_REPLICAS for Produce: every
client sends the batch again after that code, and without asking for metadata. With version 2 they know 51 CONCURRENT_TRANSACTIONS too.

A batch of a transaction that the log already knows to be open there (same producer, same epoch) needs none of this.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection

from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition

NOT_NOW = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Admission(enum.Enum):
    VERIFY = "the client knows no error that an abort would cure"
    VERIFY_ABORTABLE = "the client knows TRANSACTION_ABORTABLE"
    ADD = "the client leaves adding partitions to the broker"

    @classmethod
    def for_produce(cls, version: int) -> Admission:
        return cls.ADD if version >= 12 else cls.VERIFY_ABORTABLE if version >= 11 else cls.VERIFY

    @classmethod
    def for_txn_offset_commit(cls, version: int) -> Admission:
        return cls.ADD if version >= 5 else cls.VERIFY_ABORTABLE if version >= 4 else cls.VERIFY


def admit(
    coordinator: TransactionCoordinator,
    admission: Admission,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    answer: Callable[[dict[TopicPartition, ErrorCode]], None],
) -> None:
    """The error code of each partition: at once when the coordinator is here and idle, later when it has to write or to wait."""
    if admission is Admission.ADD:
        coordinator.add_partitions_implicitly(
            transactional_id, producer, partitions, lambda error: answer(dict.fromkeys(partitions, answered(error, admission)))
        )
    else:
        verified = coordinator.verify(transactional_id, producer, partitions)
        answer({name: answered(error, admission) for name, error in verified.items()})


def answered(error: ErrorCode, admission: Admission) -> ErrorCode:
    """The coordinator's word, as a client of this kind understands it in Produce and TxnOffsetCommit."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and admission is Admission.VERIFY:
        return ErrorCode.INVALID_TXN_STATE
    return error


def answered_to_produce(error: ErrorCode, admission: Admission) -> ErrorCode:
    """Of what `admit` gave, what goes into a Produce answer."""
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and admission is Admission.ADD:
        return error
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in NOT_NOW else error
