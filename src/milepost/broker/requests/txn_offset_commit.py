"""TxnOffsetCommit (key 28): offsets that count when the transaction commits.

The group's partition of `__consumer_offsets` must be part of the transaction: up to version 4 the client has added
it, from version 5 that happens here (KIP-890). Clients retry on 14; 51 is known only to those of version 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.coordinator.transactions.transaction import Producer
from milepost.coordinator.transactions.transaction_admission import NOT_NOW, Admission
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

OFFSETS_TOPIC = "__consumer_offsets"


def handle(request: TxnOffsetCommitRequest, context: Context) -> Work[TxnOffsetCommitResponse | None]:
    if not request.group_id:
        # Before it becomes part of the transaction.
        return refused(request, ErrorCode.INVALID_GROUP_ID)
    if request.producer_id < 0:
        return refused(request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch < 0:
        return refused(request, ErrorCode.INVALID_PRODUCER_EPOCH)
    groups = context.broker.groups
    partition = TopicPartition(OFFSETS_TOPIC, groups.partition_for(request.group_id))
    commits = yield from groups.prepare_commits(request)
    admission = Admission.for_txn_offset_commit(context.version)

    producer = Producer(request.producer_id, request.producer_epoch)
    guard = None
    if context.broker.asks_coordinator(admission):
        guard = context.broker.offsets_topic.start_verification(partition.partition, producer)
    if guard is None:
        # The transaction is open in the partition, or need not be verified.
        groups.commit_offsets_in_transaction(request, context.version, commits, context.answer)
        return None

    def admitted(errors: dict[TopicPartition, ErrorCode]) -> None:
        error = errors[partition]
        if error and error not in NOT_NOW:
            context.broker.offsets_topic.end_verification(partition.partition, producer, guard)
        if error is ErrorCode.CONCURRENT_TRANSACTIONS and admission is not Admission.ADD:
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if error:
            context.answer(refused(request, error))
        else:
            groups.commit_offsets_in_transaction(request, context.version, commits, context.answer, guard)

    context.broker.topology.coordinators.admit(admission, request.transactional_id, producer, [partition], admitted)
    return None


def refused(request: TxnOffsetCommitRequest, error: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.Topic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponse.Topic.Partition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
