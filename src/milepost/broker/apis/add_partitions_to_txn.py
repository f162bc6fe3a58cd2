"""AddPartitionsToTxn (key 24): partitions that the transaction is going to write to.

Up to version 3 a client asks, for one transaction. All partitions are added or none: if one of them cannot be, it is
named with its error, and the others get 55 OPERATION_NOT_ATTEMPTED. Clients cannot add internal topics. Before
version 2 a fenced producer is told so with 47 INVALID_PRODUCER_EPOCH.

From version 4 other brokers ask, for many transactions at once: to add partitions on behalf of a client that leaves
it to them, or only to verify that they were added. Their answers come together, when the last transaction has its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from milepost.cluster.view import INTERNAL_TOPICS
from milepost.coordinator.transaction import EPOCH_BUMP_VERSION, Producer
from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 24
Transaction = AddPartitionsToTxnRequest.Transaction
TransactionResult = AddPartitionsToTxnResponse.ResultsByTransaction
TopicResult = TransactionResult.TopicResult
TopicResultV3 = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow
Errors = Mapping[TopicPartition, ErrorCode]


class Topic(Protocol):
    name: str
    partitions: list[int]


def handle(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse | None:
    if context.version >= 4:
        return answer_brokers(request, context)
    return answer_client(request, context)


def answer_client(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse | None:
    partitions = names_of(request.v3_and_below_topics)
    faults = {name: fault for name in partitions if (fault := fault_of(name, context))}
    if faults:
        return client_response({name: faults.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED) for name in partitions})

    def answered(error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED and context.version < 2:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        context.answer(client_response(dict.fromkeys(partitions, error)))

    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    context.broker.transactions.add_partitions(request.v3_and_below_transactional_id, producer, partitions, answered)
    return None


def fault_of(name: TopicPartition, context: Context) -> ErrorCode:
    if name.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_here = context.broker.cluster.has_partition(name.topic, name.partition)
    return ErrorCode.NONE if is_here else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def client_response(errors: Errors) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            TopicResultV3(
                name=topic,
                results_by_partition=[
                    TopicResultV3.ResultsByPartition(partition_index=name.partition, partition_error_code=errors[name])
                    for name in names
                ],
            )
            for topic, names in groupby(errors, key=lambda name: name.topic)
        ]
    )


def answer_brokers(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse | None:
    if not request.transactions:
        return AddPartitionsToTxnResponse()
    results: dict[int, TransactionResult] = {}

    def answered(position: int, transaction: Transaction, errors: Errors) -> None:
        results[position] = transaction_result(transaction, errors)
        if len(results) == len(request.transactions):
            context.answer(AddPartitionsToTxnResponse(results_by_transaction=[results[place] for place in sorted(results)]))

    transactions = context.broker.transactions
    for position, transaction in enumerate(request.transactions):
        partitions = names_of(transaction.topics)
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        done = partial(answered, position, transaction)
        if transaction.verify_only:
            done(transactions.verify(transaction.transactional_id, producer, partitions))
        else:
            transactions.add_partitions(
                transaction.transactional_id, producer, partitions, partial(to_all, partitions, done), EPOCH_BUMP_VERSION
            )
    return None


def transaction_result(transaction: Transaction, errors: Errors) -> TransactionResult:
    topics = [
        TopicResult(
            name=topic,
            results_by_partition=[
                TopicResult.ResultsByPartition(partition_index=name.partition, partition_error_code=errors[name])
                for name in names
            ],
        )
        for topic, names in groupby(errors, key=lambda name: name.topic)
    ]
    return TransactionResult(transactional_id=transaction.transactional_id, topic_results=topics)


def names_of(topics: Iterable[Topic]) -> list[TopicPartition]:
    """Each partition once, the partitions of a topic together."""
    names = {TopicPartition(topic.name, partition): None for topic in topics for partition in topic.partitions}
    return sorted(names, key=lambda name: name.topic)


def to_all(partitions: list[TopicPartition], done: partial[None], error: ErrorCode) -> None:
    done(dict.fromkeys(partitions, error))
