"""LeaderAndIsr (key 4): the controller says what this broker leads and follows from now on; see `replica/leader_and_isr`.

The settings of a topic that gets a log here are read first: the log is made with them, and `min.insync.replicas` holds from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.slices import Work, called_back
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import LeaderAndIsrRequest, LeaderAndIsrResponse
from milepost.replica.leader_and_isr import partition_states
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

EPOCH_SINCE = 2


def handle(request: LeaderAndIsrRequest, context: Context, broker: ClusterParts) -> Work[LeaderAndIsrResponse]:
    context.goes_on = context.is_urgent = True
    return broker.turn_of_controller.of(leading_and_following(request, context, broker))


def leading_and_following(request: LeaderAndIsrRequest, context: Context, broker: ClusterParts) -> Work[LeaderAndIsrResponse]:
    member, suspensions = broker.member, broker.leader_and_isr.suspensions
    broker_epoch = request.broker_epoch if context.version >= EPOCH_SINCE else None
    fault = yield from called_back(
        partial(member.fault_of_controller, request.controller_id, request.controller_epoch, broker_epoch)
    )
    if not fault:
        topics, without_log = set(), set()
        for topic, _, state in partition_states(request):
            topics.add(topic)
            if TopicPartition(topic, state.partition_index) not in broker.logs.logs:
                without_log.add(topic)
            yield

        def read(done: Callable[[bool], None]) -> None:
            member.with_topic_settings(topics, lambda: done(True), lambda: done(False), new=without_log)

        if not (yield from called_back(read)):
            # The session in which the controller spoke to us ended meanwhile.
            return LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    return (yield from broker.leader_and_isr.leading_and_following(request, context.version, fault, suspensions))
