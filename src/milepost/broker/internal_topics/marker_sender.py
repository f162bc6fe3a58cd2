"""Transaction markers, for the leader of each partition: written here, or sent to another broker (WriteTxnMarkers).

A partition whose leader is not known or does not answer gets NOT_LEADER_OR_FOLLOWER (6), and the caller retries. One that was deleted gets
UNKNOWN_TOPIC_OR_PARTITION (3): nothing is left to be ended. That a broker does not know a partition is no proof of that, for one
that has just started knows nothing yet; ZooKeeper is asked whether the topic is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from milepost.broker.internal_topics.transaction_markers import Marked, MarkerWriter
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Error, Exists, Result
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import WriteTxnMarkersRequest
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.cluster.controller_metadata import ControllerMetadata
    from milepost.cluster.member import ClusterMember
    from milepost.cluster.protocol_versions import ProtocolVersions
    from milepost.coordinator.transactions.pending_markers import Markers
    from milepost.replica.peers import Peers

Marker = WriteTxnMarkersRequest.Marker


class MarkedInCluster(Marked, Protocol):
    """Where markers go, and how to reach who leads there."""

    @property
    def node_id(self) -> int: ...
    @property
    def cluster(self) -> ControllerMetadata: ...
    @property
    def member(self) -> ClusterMember: ...
    @property
    def peers(self) -> Peers: ...
    @property
    def versions(self) -> ProtocolVersions: ...


class MarkerSender:
    def __init__(self, broker: MarkedInCluster):
        self._broker = broker
        self._here = MarkerWriter(broker)

    def __call__(self, markers: Markers, done: Callable[[dict[TopicPartition, int]], None]) -> None:
        errors: dict[TopicPartition, int] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for name in markers.partitions:
            known = self._broker.cluster.partition_info(name.topic, name.partition)
            if known is None:
                errors[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif known.leader not in self._broker.cluster.brokers:
                errors[name] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                by_leader.setdefault(known.leader, []).append(name)
        waiting = set(by_leader)

        def answered(leader: int, codes: dict[TopicPartition, int]) -> None:
            errors.update(codes)
            waiting.discard(leader)
            if not waiting:
                self._make_sure(errors, done)

        if not by_leader:
            self._make_sure(errors, done)
        for leader, names in by_leader.items():
            if leader == self._broker.node_id:
                self._here(markers._replace(partitions=names), partial(answered, leader))
            else:
                marker = Marker(
                    producer_id=markers.producer_id,
                    producer_epoch=markers.producer_epoch,
                    transaction_result=markers.committed,
                    coordinator_epoch=markers.coordinator_epoch,
                    topics=topics_of(names),
                )
                self._send(leader, marker, names, partial(answered, leader))

    def _make_sure(self, errors: dict[TopicPartition, int], done: Callable[[dict[TopicPartition, int]], None]) -> None:
        unknown = [name for name, code in errors.items() if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        if not unknown:
            done(errors)
            return

        def looked(answers: Sequence[Result]) -> None:
            for name, answer in zip(unknown, answers, strict=True):
                if answer.error is not Error.NO_NODE:
                    errors[name] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            done(errors)

        self._broker.member.look([Exists(znodes.topic_path(name.topic)) for name in unknown], looked)

    def _send(
        self, leader: int, marker: Marker, names: list[TopicPartition], done: Callable[[dict[TopicPartition, int]], None]
    ) -> None:
        def answered(response: Any) -> None:
            codes = {
                TopicPartition(topic.name, part.partition_index): part.error_code
                for each in response.markers
                for topic in each.topics
                for part in topic.partitions
            }
            done({name: codes.get(name, ErrorCode.NOT_LEADER_OR_FOLLOWER) for name in names})

        self._broker.peers.send(
            self._broker.cluster.brokers[leader],
            WriteTxnMarkersRequest(markers=[marker]),
            self._broker.versions.write_txn_markers,
            answered,
            lambda error: done(dict.fromkeys(names, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
            purpose="markers",
        )


def topics_of(names: list[TopicPartition]) -> list[Marker.Topic]:
    topics: dict[str, Marker.Topic] = {}
    for name in names:
        topics.setdefault(name.topic, Marker.Topic(name=name.topic, partition_indexes=[])).partition_indexes.append(
            name.partition
        )
    return list(topics.values())
