"""Requests to the brokers after a change: collected while states change, sent as one batch, in Kafka's order.

    LeaderAndIsr     to the replicas of a partition: lead it, or follow its leader
    UpdateMetadata   to all brokers: who leads what, and who is alive
    StopReplica      to a replica: stop, and perhaps delete the log

After each LeaderAndIsr an UpdateMetadata goes to all brokers. A topic that is being deleted is sent with leader -2, and its replicas
are stopped with epoch -2: these are not compared with what the broker knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from milepost.cluster.controller.broker_channels import BrokerChannels
from milepost.cluster.controller.context import ControllerContext
from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.cluster.zookeeper.znodes import Assignment, PartitionState
from milepost.log.directory.partition_metadata import topic_id_bytes
from milepost.protocol.messages import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from milepost.replica.metadata import LEADER_DURING_DELETE, BrokerInfo
from milepost.topic_partition import TopicPartition

NO_TOPIC_ID = bytes(16)
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

OnResponse = Callable[[BrokerInfo, Any], object]
"""A broker's answer: (broker, response)."""


class BrokerRequests:
    def __init__(
        self,
        context: ControllerContext,
        channels: BrokerChannels,
        versions: ProtocolVersions,
        controller_id: int,
        inter_broker_listener: str,
        *,
        on_leader_and_isr: OnResponse = lambda broker, response: None,
        on_stop_replica: Callable[[int, StopReplicaRequest, Any], object] = lambda broker_id, request, response: None,
    ):
        self.context = context
        self.channels = channels
        self.versions = versions
        self.controller_id = controller_id
        self.inter_broker_listener = inter_broker_listener
        self.on_leader_and_isr = on_leader_and_isr
        self.on_stop_replica = on_stop_replica
        self._leader_and_isr: dict[int, dict[TopicPartition, Any]] = {}
        self._update_metadata: dict[int, None] = {}
        self._metadata_partitions: dict[TopicPartition, None] = {}
        self._stop_replica: dict[int, dict[TopicPartition, tuple[int, bool]]] = {}

    # Collecting.

    def lead_and_follow(
        self, broker_ids: Iterable[int], partition: TopicPartition, state: PartitionState, assignment: Assignment, *, is_new: bool
    ) -> None:
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            collected = self._leader_and_isr.setdefault(broker_id, {})
            was_new = partition in collected and collected[partition].is_new
            collected[partition] = LeaderAndIsrRequest.TopicState.PartitionState(
                partition_index=partition.partition,
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
                is_new=is_new or was_new,
                leader_recovery_state=int(state.is_recovering),
            )
        self.update_all_brokers([partition])

    def update_all_brokers(self, partitions: Iterable[TopicPartition] = ()) -> None:
        self.tell(self.context.brokers, partitions)

    def tell(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        self._update_metadata.update(dict.fromkeys(broker_ids))
        self._metadata_partitions.update(dict.fromkeys(partitions))

    def stop(self, broker_id: int, partition: TopicPartition, *, delete: bool) -> None:
        known = self.context.leadership.get(partition)
        epoch = known.leader_epoch if known else NO_EPOCH
        if self.context.is_deleting(partition):
            epoch = EPOCH_DURING_DELETE
        collected = self._stop_replica.setdefault(broker_id, {})
        collected[partition] = (epoch, delete or collected.get(partition, (0, False))[1])

    # Sending.

    def send(self) -> None:
        """Everything that was collected. Brokers that are gone are left out."""
        brokers = self.context.brokers
        for broker_id, states in self._leader_and_isr.items():
            if broker_id in brokers:
                self._send_leader_and_isr(brokers[broker_id], states)
        if self._update_metadata:
            topic_states, live_brokers = self._metadata_topics(), self._live_brokers()
            for broker_id in self._update_metadata:
                if broker_id in brokers:
                    self._send_update_metadata(brokers[broker_id], topic_states, live_brokers)
        for broker_id, stopped in self._stop_replica.items():
            if broker_id in brokers:
                self._send_stop_replica(brokers[broker_id], stopped)
        self.clear()

    def clear(self) -> None:
        for collected in (self._leader_and_isr, self._update_metadata, self._metadata_partitions, self._stop_replica):
            collected.clear()

    def topic_id(self, topic: str) -> bytes:
        text = self.context.topic_ids.get(topic)
        return topic_id_bytes(text, topic) if text else NO_TOPIC_ID

    def _send_leader_and_isr(self, broker: BrokerInfo, states: Mapping[TopicPartition, Any]) -> None:
        leaders = dict.fromkeys(state.leader for state in states.values())
        request = LeaderAndIsrRequest(
            controller_id=self.controller_id,
            controller_epoch=self.context.term.epoch,
            broker_epoch=broker.epoch,
            topic_states=[
                LeaderAndIsrRequest.TopicState(topic_name=topic, topic_id=self.topic_id(topic), partition_states=partitions)
                for topic, partitions in by_topic(states).items()
            ],
            live_leaders=[
                LeaderAndIsrRequest.LiveLeader(broker_id=leader, host_name=found.host, port=found.port)
                for leader in leaders
                if leader in self.context.brokers
                and (found := self.context.brokers[leader].endpoint(self.inter_broker_listener)) is not None
            ],
        )
        self._send(broker, request, self.versions.leader_and_isr, lambda response: self.on_leader_and_isr(broker, response))

    def _metadata_topics(self) -> dict[str, list[Any]]:
        states = {}
        for partition in self._metadata_partitions:
            known = self.context.leadership.get(partition)
            if known is None:
                continue
            replicas = self.context.replicas_of(partition)
            is_deleting = self.context.is_deleting(partition)
            states[partition] = UpdateMetadataRequest.TopicState.PartitionState(
                partition_index=partition.partition,
                controller_epoch=known.controller_epoch,
                leader=LEADER_DURING_DELETE if is_deleting else known.leader,
                leader_epoch=0 if is_deleting else known.leader_epoch,
                isr=list(known.isr),
                zk_version=0 if is_deleting else known.partition_epoch,
                replicas=list(replicas),
                offline_replicas=[each for each in replicas if not self.context.is_reachable(each, partition)],
            )
        return by_topic(states)

    def _live_brokers(self) -> list[Any]:
        return [
            UpdateMetadataRequest.LiveBroker(
                id=broker.broker_id,
                endpoints=[
                    UpdateMetadataRequest.LiveBroker.Endpoint(
                        port=each.port,
                        host=each.host,
                        listener=each.listener,
                        security_protocol=SECURITY_PROTOCOLS.get(each.security_protocol, 0),
                    )
                    for each in broker.endpoints
                ],
                rack=broker.rack,
            )
            for broker in self.context.brokers.values()
        ]

    def _send_update_metadata(self, broker: BrokerInfo, topics: Mapping[str, list[Any]], live_brokers: list[Any]) -> None:
        request = UpdateMetadataRequest(
            controller_id=self.controller_id,
            controller_epoch=self.context.term.epoch,
            broker_epoch=broker.epoch,
            topic_states=[
                UpdateMetadataRequest.TopicState(topic_name=topic, topic_id=self.topic_id(topic), partition_states=partitions)
                for topic, partitions in topics.items()
            ],
            live_brokers=live_brokers,
        )
        self._send(broker, request, self.versions.update_metadata, lambda response: None)

    def _send_stop_replica(self, broker: BrokerInfo, stopped: Mapping[TopicPartition, tuple[int, bool]]) -> None:
        """Before version 3 a request stops or deletes as a whole: those that stay go first."""
        version = self.versions.stop_replica
        parts = [stopped]
        if version < 3:
            parts = [{name: each for name, each in stopped.items() if each[1] is delete} for delete in (False, True)]
        for part in parts:
            if part:
                request = self._stop_request(broker, part, version)
                self._send(
                    broker,
                    request,
                    version,
                    lambda response, request=request: self.on_stop_replica(broker.broker_id, request, response),  # type: ignore[misc]
                )

    def _stop_request(
        self, broker: BrokerInfo, stopped: Mapping[TopicPartition, tuple[int, bool]], version: int
    ) -> StopReplicaRequest:
        states = by_topic(
            {
                partition: StopReplicaRequest.TopicState.PartitionState(
                    partition_index=partition.partition, leader_epoch=epoch, delete_partition=delete
                )
                for partition, (epoch, delete) in stopped.items()
            }
        )
        request = StopReplicaRequest(
            controller_id=self.controller_id, controller_epoch=self.context.term.epoch, broker_epoch=broker.epoch
        )
        if version >= 3:
            request.topic_states = [
                StopReplicaRequest.TopicState(topic_name=topic, partition_states=partitions)
                for topic, partitions in states.items()
            ]
            return request
        request.delete_partitions = any(delete for _, delete in stopped.values())
        numbers = {topic: [state.partition_index for state in partitions] for topic, partitions in states.items()}
        if version >= 1:
            request.topics = [StopReplicaRequest.Topic(name=topic, partition_indexes=each) for topic, each in numbers.items()]
        return request

    def _send(self, broker: BrokerInfo, request: Any, version: int, on_answer: Callable[[Any], object]) -> None:
        self.channels.send(broker.broker_id, request, version, on_answer)


def by_topic(states: Mapping[TopicPartition, Any]) -> dict[str, list[Any]]:
    topics: dict[str, list[Any]] = {}
    for partition, state in states.items():
        topics.setdefault(partition.topic, []).append(state)
    return topics
