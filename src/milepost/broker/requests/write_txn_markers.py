"""WriteTxnMarkers (key 27): end transactions in some partitions, whatever their coordinator thinks of it.

Coordinators of other brokers ask for it, and administrators who end a hanging transaction (`kafka-transactions abort`):
one that is open in a partition while its coordinator knows nothing of it, so that it never ends otherwise.

    the producer's epoch is older than what it wrote here                 47 INVALID_PRODUCER_EPOCH
    the same epoch ends an open transaction of version 2 (version 2 on)   47: its end must have raised the epoch (KIP-890)
    another coordinator with a higher epoch wrote here                    52 TRANSACTION_COORDINATOR_FENCED
    the partition is not here                                             3 UNKNOWN_TOPIC_OR_PARTITION

A coordinator's marker for a producer that has no open transaction is written all the same, as in Kafka.

Who is no broker of the cluster is an administrator, and may do what the tool does: abort what is open, in the epoch in which it is. Kafka
without an authorizer takes anything, so that any client can commit the transactions of others and lock their ids out.

    commit                                                31 CLUSTER_AUTHORIZATION_FAILED
    the producer has no open transaction here             48 INVALID_TXN_STATE
    another epoch than that of the open transaction       47
    an epoch of the coordinator above the one known here  31: only a coordinator announces a new one
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.internal_topics.transaction_markers import MarkerWriter
from milepost.broker.ordered_responses import OrderedResponses
from milepost.coordinator.transactions.pending_markers import Markers
from milepost.coordinator.transactions.transaction import EPOCH_BUMP_VERSION
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work
    from milepost.log.producer_state.producer_entry import ProducerEntry

FIRST_COORDINATOR_EPOCH = 0
Marker = WriteTxnMarkersRequest.Marker
MarkerAnswer = WriteTxnMarkersResponse.Marker
TopicAnswer = MarkerAnswer.Topic
MARKERS_AT_ONCE = 10


def handle(request: WriteTxnMarkersRequest, context: Context) -> Work[None]:
    """Answered when all in-sync replicas have all markers."""
    answers = OrderedResponses[MarkerAnswer](
        len(request.markers), lambda parts: context.answer(WriteTxnMarkersResponse(markers=parts))
    )
    for place, marker in enumerate(request.markers):
        yield from writing(marker, context, partial(answers.put, place))
        yield


def writing(marker: Marker, context: Context, done: Callable[[MarkerAnswer], object]) -> Work[None]:
    """Some partitions at a time; `done` when the last marker is on all replicas."""
    answer = MarkerAnswer(producer_id=marker.producer_id, topics=[])
    results: dict[TopicPartition, list[TopicAnswer.Partition]] = {}
    for topic in marker.topics:
        answered = TopicAnswer(name=topic.name, partitions=[])
        answer.topics.append(answered)
        for index in topic.partition_indexes:
            result = TopicAnswer.Partition(partition_index=index)
            answered.partitions.append(result)
            results.setdefault(TopicPartition(topic.name, index), []).append(result)
            yield
        yield
    names = list(results)
    chunks = [names[first : first + MARKERS_AT_ONCE] for first in range(0, len(names), MARKERS_AT_ONCE)]
    written = OrderedResponses[None](len(chunks), lambda parts: done(answer))

    def told(place: int, errors: dict[TopicPartition, int], codes: dict[TopicPartition, int]) -> None:
        for name, code in (errors | codes).items():
            for result in results[name]:
                result.error_code = code
        written.put(place, None)

    for place, chunk in enumerate(chunks):
        errors = {name: error for name in chunk if (error := fault_of(marker, name, context))}
        here = [name for name in chunk if name not in errors]
        MarkerWriter(context.broker)(
            Markers(here, marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch),
            partial(told, place, errors),
        )
        yield


def fault_of(marker: Marker, name: TopicPartition, context: Context) -> int:
    """What speaks against a marker, before the log looks at it."""
    partition = context.broker.replicas.partition(name)
    if partition is None:
        return context.broker.missing_partition(name)
    if marker.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if marker.producer_epoch < 0:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    known = partition.log.producers.last_entry(marker.producer_id)
    is_open = known is not None and known.current_txn_first_offset is not None
    if (
        known is not None
        and is_open
        and marker.transaction_version >= EPOCH_BUMP_VERSION
        and marker.producer_epoch <= known.epoch
    ):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NONE if context.is_broker else fault_of_admin(marker, known)


def fault_of_admin(marker: Marker, known: ProducerEntry | None) -> int:
    """The error for a marker that no coordinator sent, if there is one."""
    if marker.transaction_result:
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if known is None or known.current_txn_first_offset is None:
        return ErrorCode.INVALID_TXN_STATE
    if marker.producer_epoch != known.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if marker.coordinator_epoch > max(known.coordinator_epoch, FIRST_COORDINATOR_EPOCH):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.NONE
