"""AddPartitionsToTxn (key 24): partitions that the transaction is going to write to.

Up to version 3 a client asks, for one transaction. All partitions are added or none: if one of them cannot be, it is
named with its error, and the others get 55 OPERATION_NOT_ATTEMPTED. Clients cannot add internal topics. Before
version 2 a fenced producer gets 47 INVALID_PRODUCER_EPOCH.

From version 4 other brokers ask, for many transactions at once: to add partitions on behalf of a client that leaves
it to them, or only to verify that they were added. Their answers come together, when the last transaction has its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from milepost.broker.ordered_responses import OrderedResponses
from milepost.cluster.view import INTERNAL_TOPICS
from milepost.coordinator.transactions.transaction import EPOCH_BUMP_VERSION, Producer
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

Transaction = AddPartitionsToTxnRequest.Transaction
TransactionResult = AddPartitionsToTxnResponse.ResultsByTransaction
TopicResult = TransactionResult.TopicResult
TopicResultV3 = AddPartitionsToTxnResponse.ResultsByTopicV3AndBelow
Errors = Mapping[TopicPartition, ErrorCode]
Results = dict[TopicPartition, Any]


class Topic(Protocol):
    name: str
    partitions: list[int]


def handle(request: AddPartitionsToTxnRequest, context: Context) -> Work[AddPartitionsToTxnResponse | None]:
    if context.version >= 4:
        return answer_brokers(request, context)
    return answer_client(request, context)


def answer_client(request: AddPartitionsToTxnRequest, context: Context) -> Work[AddPartitionsToTxnResponse | None]:
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[])
    partitions = yield from names_of(request.v3_and_below_topics)
    results = yield from results_for(partitions, TopicResultV3, response.results_by_topic_v3_and_below)
    faults = {}
    for name in partitions:
        if fault := fault_of(name, context):
            faults[name] = fault
        yield
    if faults:
        for name, result in results.items():
            result.partition_error_code = faults.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED)
            yield
        return response

    def answered(error: ErrorCode) -> None:
        if error is ErrorCode.PRODUCER_FENCED and context.version < 2:
            error = ErrorCode.INVALID_PRODUCER_EPOCH
        for result in results.values():
            result.partition_error_code = error
        context.answer(response)

    producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    context.broker.transactions.add_partitions(request.v3_and_below_transactional_id, producer, partitions, answered)
    return None


def fault_of(name: TopicPartition, context: Context) -> ErrorCode:
    if name.topic in INTERNAL_TOPICS:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    is_here = context.broker.cluster.has_partition(name.topic, name.partition)
    return ErrorCode.NONE if is_here else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def results_for(partitions: Iterable[TopicPartition], kind: Any, topics: list[Any]) -> Work[Results]:
    """The place for the error of each partition, in topics of this kind."""
    results: Results = {}
    for topic, names in groupby(partitions, key=lambda name: name.topic):
        answered = kind(name=topic, results_by_partition=[])
        topics.append(answered)
        for name in names:
            results[name] = kind.ResultsByPartition(partition_index=name.partition)
            answered.results_by_partition.append(results[name])
            yield
    return results


def answer_brokers(request: AddPartitionsToTxnRequest, context: Context) -> Work[AddPartitionsToTxnResponse | None]:
    answers = OrderedResponses[TransactionResult](
        len(request.transactions), lambda parts: context.answer(AddPartitionsToTxnResponse(results_by_transaction=parts))
    )
    transactions = context.broker.transactions

    def answered(place: int, found: TransactionResult, results: Results, errors: Errors) -> None:
        for name, result in results.items():
            result.partition_error_code = errors[name]
        answers.put(place, found)

    for place, transaction in enumerate(request.transactions):
        found = TransactionResult(transactional_id=transaction.transactional_id, topic_results=[])
        partitions = yield from names_of(transaction.topics)
        results = yield from results_for(partitions, TopicResult, found.topic_results)
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        done = partial(answered, place, found, results)
        if transaction.verify_only:
            done(transactions.verify(transaction.transactional_id, producer, partitions))
        else:
            transactions.add_partitions(
                transaction.transactional_id, producer, partitions, partial(to_all, partitions, done), EPOCH_BUMP_VERSION
            )
        yield
    return None


def names_of(topics: Iterable[Topic]) -> Work[list[TopicPartition]]:
    """Each partition once, the partitions of a topic together."""
    by_topic: dict[str, dict[TopicPartition, None]] = {}
    for topic in topics:
        names = by_topic.setdefault(topic.name, {})
        for partition in topic.partitions:
            names[TopicPartition(topic.name, partition)] = None
            yield
        yield
    return [name for topic_name in sorted(by_topic) for name in by_topic[topic_name]]


def to_all(partitions: list[TopicPartition], done: partial[None], error: ErrorCode) -> None:
    done(dict.fromkeys(partitions, error))
