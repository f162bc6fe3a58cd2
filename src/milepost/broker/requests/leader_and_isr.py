"""LeaderAndIsr (key 4): the controller says what this broker leads and follows from now on; see `replica/leader_and_isr`.

The settings of a topic that gets a log here are read first: the log is made with them, and `min.insync.replicas` holds from the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import LeaderAndIsrRequest, LeaderAndIsrResponse
from milepost.replica.leader_and_isr import partition_states
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

EPOCH_SINCE = 2


def handle(request: LeaderAndIsrRequest, context: Context, broker: ClusterParts) -> None:
    named = {TopicPartition(topic, state.partition_index) for topic, _, state in partition_states(request)}
    topics = {name.topic for name in named}

    def act() -> None:
        context.answer(broker.leader_and_isr.lead_and_follow(request, context.version))

    def expired() -> None:
        """The session in which the controller spoke to us ended meanwhile."""
        context.answer(LeaderAndIsrResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))

    def judged(fault: int) -> None:
        if fault:
            context.answer(broker.leader_and_isr.lead_and_follow(request, context.version, fault))
        else:
            without_log = {name.topic for name in named if name not in broker.logs.logs}
            broker.member.with_topic_settings(topics, act, expired, new=without_log)

    broker_epoch = request.broker_epoch if context.version >= EPOCH_SINCE else None
    broker.member.fault_of_controller(request.controller_id, request.controller_epoch, broker_epoch, judged)
