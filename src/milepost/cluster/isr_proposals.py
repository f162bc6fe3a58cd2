"""Changes of in-sync replicas that leaders on this broker want, on their way.

    2.7 and later   AlterPartition to the controller: everything that waits in one request, one request at a time; since 3.5 with the
                    broker epochs of the replicas
    before          the leader writes the partition's state itself, over the version it knows, and later leaves word for the controller
                    in /isr_change_notification, so that all brokers get it: one note for what changed within a few seconds

What the controller says to a whole request is said to each of its partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from milepost.cluster.controller_channel import ControllerChannel
from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.cluster.view import NO_TOPIC_ID
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Get, SetData
from milepost.cluster.zookeeper.session import Steps, retried
from milepost.log.log import Log
from milepost.loop import Timers
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterPartitionRequest
from milepost.replica.leadership import Confirmed, LeaderState
from milepost.replica.metadata import PartitionInfo
from milepost.replica.remote_replica import NO_BROKER_EPOCH
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")

IDS_VERSION, EPOCHS_VERSION = 2, 3
NOTE_SECONDS = 2.5

Done = Callable[[Confirmed], object]
RunSteps = Callable[[Steps[Any], Callable[[Any], object], Callable[[], object] | None], None]


class PendingProposal(NamedTuple):
    state: LeaderState
    isr: frozenset[int]
    epochs: Mapping[int, int]
    done: Done
    topic_id: bytes


def ordered(isr: frozenset[int], known: PartitionInfo | None) -> list[int]:
    """In Kafka's order: members of the ISR keep their place, newcomers come last."""
    stayed = [each for each in known.isr if each in isr] if known else []
    return stayed + sorted(isr.difference(stayed))


class AlterPartitionProposals:
    def __init__(
        self,
        cluster: ControllerMetadata,
        controller_channel: ControllerChannel,
        versions: ProtocolVersions,
        broker_epoch: Callable[[], int],
    ):
        self._cluster = cluster
        self._controller_channel = controller_channel
        self._versions = versions
        self._broker_epoch = broker_epoch
        self._waiting: dict[TopicPartition, PendingProposal] = {}
        self._sent: dict[TopicPartition, PendingProposal] = {}

    def may_join(self, broker_id: int) -> bool:
        return broker_id in self._cluster.brokers

    def propose(self, log: Log, state: LeaderState, isr: frozenset[int], epochs: Mapping[int, int], done: Done) -> None:
        topic_id = self._cluster.id_of(log.partition.topic) or NO_TOPIC_ID
        if self._versions.alter_partition >= IDS_VERSION and topic_id == NO_TOPIC_ID:
            # LeaderAndIsr came, UpdateMetadata with the topic's name not yet.
            done(Confirmed(ErrorCode.OPERATION_NOT_ATTEMPTED))
            return
        self._waiting[log.partition] = PendingProposal(state, isr, epochs, done, topic_id)
        if not self._sent:
            self._send()

    def _send(self) -> None:
        self._sent, self._waiting = self._waiting, {}
        if not self._sent:
            return
        self._controller_channel.ask(self._request, self._versions.alter_partition, self._answered)

    def _request(self) -> AlterPartitionRequest:
        topics: dict[str, AlterPartitionRequest.Topic] = {}
        for name, wish in self._sent.items():
            epochs = {**wish.epochs, self._cluster.node_id: self._broker_epoch()}
            topic = topics.get(name.topic)
            if topic is None:
                topic = topics[name.topic] = AlterPartitionRequest.Topic(
                    topic_name=name.topic, topic_id=wish.topic_id, partitions=[]
                )
            part = AlterPartitionRequest.Topic.Partition(
                partition_index=name.partition,
                leader_epoch=wish.state.leader_epoch,
                # A partition with a leader has been recovered.
                leader_recovery_state=0,
                partition_epoch=wish.state.partition_epoch,
            )
            in_order = ordered(wish.isr, self._cluster.partition_info(*name))
            if self._versions.alter_partition >= EPOCHS_VERSION:
                part.new_isr_with_epochs = [
                    part.NewIsrWithEpoch(broker_id=each, broker_epoch=epochs.get(each, NO_BROKER_EPOCH)) for each in in_order
                ]
            else:
                part.new_isr = in_order
            topic.partitions.append(part)
        return AlterPartitionRequest(
            broker_id=self._cluster.node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _answered(self, response: Any) -> None:
        sent, self._sent = self._sent, {}
        names = {wish.topic_id: name.topic for name, wish in sent.items()}
        found: dict[TopicPartition, Confirmed] = {}
        for topic in response.topics:
            name = topic.topic_name or names.get(topic.topic_id, "")
            for part in topic.partitions:
                found[TopicPartition(name, part.partition_index)] = Confirmed(
                    part.error_code, frozenset(part.isr), part.partition_epoch
                )
        missing = Confirmed(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
        for partition, wish in sent.items():
            wish.done(found.get(partition, missing))
        if self._waiting and not self._sent:
            self._send()


class ZnodeProposals:
    """For clusters whose protocol is older than 2.7."""

    def __init__(self, cluster: ControllerMetadata, run: RunSteps, timers: Timers, controller_epoch: Callable[[], int]):
        self._cluster = cluster
        self._run = run
        self._timers = timers
        self._controller_epoch = controller_epoch
        self._unnoted: list[TopicPartition] = []

    def may_join(self, broker_id: int) -> bool:
        return broker_id in self._cluster.brokers

    def propose(self, log: Log, state: LeaderState, isr: frozenset[int], epochs: Mapping[int, int], done: Done) -> None:
        self._run(self._write(log.partition, state, isr), done, lambda: done(Confirmed(ErrorCode.UNKNOWN_SERVER_ERROR)))

    def _write(self, name: TopicPartition, state: LeaderState, isr: frozenset[int]) -> Steps[Confirmed]:
        path = znodes.state_path(name.topic, name.partition)
        in_order = tuple(ordered(isr, self._cluster.partition_info(*name)))
        node = znodes.PartitionState(
            self._cluster.node_id, state.leader_epoch, in_order, self._controller_epoch(), is_recovering=False
        )
        data = znodes.state(node)
        (answer,) = yield [SetData(path, data, state.partition_epoch)]
        while not answer.ok:
            # Perhaps our own write, whose answer was lost; or the write did not arrive.
            (found,) = yield [Get(path)]
            if found.ok and found.data == data:
                answer = found
            elif found.ok and found.version == state.partition_epoch:
                (answer,) = yield [SetData(path, data, state.partition_epoch)]
            else:
                return Confirmed(ErrorCode.INVALID_UPDATE_VERSION)
        self._note(name)
        return Confirmed(0, isr, answer.version)

    def _note(self, name: TopicPartition) -> None:
        if not self._unnoted:
            self._timers.later(NOTE_SECONDS, self._write_note)
        self._unnoted.append(name)

    def _write_note(self) -> None:
        names, self._unnoted = dict.fromkeys(self._unnoted), []

        def write() -> Steps[None]:
            data = znodes.partition_list([(name.topic, name.partition) for name in names])
            yield from retried([Create(znodes.ISR_CHANGE, data, sequence=True)])  # twice does no harm

        self._run(write(), lambda _: None, None)
