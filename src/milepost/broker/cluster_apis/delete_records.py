"""DeleteRecords (key 21) in a cluster: done when every replica that is alive starts no earlier than the offset, or with 7 when time is up.

Followers hear of the leader's new start with the answer to their next fetch, and say their own in the one after that.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from milepost.broker.apis.delete_records import Answer, delete_all
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteRecordsRequest, DeleteRecordsResponse
from milepost.replica.purgatory import start_key
from milepost.replica.replicated import ReplicatedPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 21


def handle(request: DeleteRecordsRequest, context: Context) -> Work[None]:
    broker = context.broker
    topics = (yield from delete_all(request, broker)).topics
    waiting: dict[Hashable, tuple[ReplicatedPartition, Answer]] = {}
    for topic in topics:
        for answer in topic.partitions:
            yield None
            partition = broker.replicas.partition_of(topic.name, answer.partition_index)
            if not answer.error_code and isinstance(partition, ReplicatedPartition) and not is_everywhere(partition, answer):
                waiting[start_key(partition.name)] = (partition, answer)

    def try_complete(key: Hashable) -> bool:
        if key in waiting and is_everywhere(*waiting[key]):
            del waiting[key]
        return not waiting

    def complete() -> None:
        for _, answer in waiting.values():
            answer.error_code, answer.low_watermark = ErrorCode.REQUEST_TIMED_OUT, -1
        if context.is_connected:
            context.answer(DeleteRecordsResponse(topics=topics))

    if waiting:
        guarded = context.guarded
        broker.replicas.purgatory.wait(list(waiting), guarded(try_complete), guarded(complete), request.timeout_ms / 1000)
    else:
        context.answer(DeleteRecordsResponse(topics=topics))


def is_everywhere(partition: ReplicatedPartition, answer: Answer) -> bool:
    return partition.leadership is not None and partition.leadership.low_watermark >= answer.low_watermark
