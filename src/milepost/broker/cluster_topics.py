"""Topics of a cluster, made, grown and deleted by what is written into ZooKeeper; whoever asked may wait until the cluster has followed.

A request is done when this broker's metadata shows it: every partition with a leader, or the topic gone. After the time that the client
gave it is answered with 7 REQUEST_TIMED_OUT, and happens all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from milepost.broker.internal_topics.replicated_topic import ReplicatedTopic
from milepost.broker.topic_errors import InvalidReplicaAssignment, InvalidReplicationFactor
from milepost.broker.topic_requests import repeated
from milepost.cluster import topic_writes
from milepost.cluster.replica_assignment import assign_replicas
from milepost.cluster.zookeeper.session import Steps
from milepost.cluster.zookeeper.znodes import Assignment
from milepost.log.directory.partition_metadata import random_topic_id
from milepost.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import random

    from milepost.cluster.controller.controller import Controller
    from milepost.cluster.member import Member
    from milepost.cluster.protocol_versions import ProtocolVersions
    from milepost.cluster.told import ToldCluster
    from milepost.loop import Loop
    from milepost.replica.manager import ReplicaManager

logger = logging.getLogger("milepost.broker")

LEADERS_SECONDS = 2.0

Done = Callable[[int], object]
Replicas = Mapping[int, tuple[int, ...]]


class Administering(Protocol):
    """What topics of a cluster are changed by."""

    @property
    def rng(self) -> random.Random: ...
    @property
    def loop(self) -> Loop: ...
    @property
    def cluster(self) -> ToldCluster: ...
    @property
    def member(self) -> Member: ...
    @property
    def versions(self) -> ProtocolVersions: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def controller(self) -> Controller | None: ...


class ClusterTopics:
    def __init__(self, broker: Administering):
        self._broker = broker
        self._being_made: set[str] = set()

    # Replicas.

    @property
    def racks(self) -> dict[int, str | None]:
        return {broker_id: broker.rack for broker_id, broker in self._broker.cluster.brokers.items()}

    def assign(self, partitions: int, factor: int) -> Replicas:
        """Replicas for a new topic, on brokers that are alive."""
        self.ensure_factor(factor)
        return assign_replicas(self.racks, partitions, factor, self._broker.rng)

    def ensure_factor(self, factor: int) -> None:
        alive = len(self._broker.cluster.brokers)
        if not 1 <= factor <= alive:
            raise InvalidReplicationFactor(f"replication factor {factor}: {alive} brokers are alive")

    def ensure_assignable(self, partition: int, broker_ids: Sequence[int]) -> None:
        """A partition that is assigned by hand goes to brokers that are alive."""
        if not broker_ids or repeated(broker_ids):
            raise InvalidReplicaAssignment(
                f"partition {partition} is assigned to {list(broker_ids)}: at least one broker, each of them once"
            )
        strangers = [each for each in broker_ids if each not in self._broker.cluster.brokers]
        if strangers:
            raise InvalidReplicaAssignment(f"partition {partition} is assigned to broker {strangers[0]}, which is not alive")

    # Writing.

    def create(self, name: str, replicas: Replicas, configs: Mapping[str, str], done: Done) -> None:
        topic_id = random_topic_id(self._broker.rng)
        self._write(topic_writes.create_topic(name, replicas, configs, topic_id, self._broker.versions), done)

    def delete(self, name: str, done: Done) -> None:
        self._write(topic_writes.delete_topic(name), done)

    def grow(self, name: str, total: int, given: Replicas | None, done: Done) -> None:
        """To `total` partitions; `given` assigns the new ones by hand."""

        def more(partitions: Mapping[int, Assignment]) -> Replicas:
            if given is not None:
                return given
            first = partitions[0].replicas
            # Leaders go on round the brokers from where partition 0 began.
            start = max(0, sorted(self.racks).index(first[0]) if first[0] in self.racks else 0)
            return assign_replicas(
                self.racks,
                total - len(partitions),
                min(len(first), len(self.racks)),
                self._broker.rng,
                first_partition=len(partitions),
                start=start,
            )

        self._write(topic_writes.grow_topic(name, more, self._broker.versions), done)

    def _write(self, steps: Steps[int], done: Done) -> None:
        """When the session ends first, it may have been written or not: an error that says nothing says that."""
        self._broker.member.run(steps, done, lambda: done(ErrorCode.UNKNOWN_SERVER_ERROR))

    def create_soon(self, name: str, partitions: int, factor: int, configs: Mapping[str, str]) -> None:
        """Because somebody asked for it; they will ask again."""
        if name in self._being_made:
            return
        replicas = self.assign(partitions, factor)
        self._being_made.add(name)
        self.create(name, replicas, configs, lambda code: self._being_made.discard(name))

    def create_internal(self, topic: ReplicatedTopic) -> None:
        self.create_soon(topic.name, topic.partition_count, topic.factor, topic.configs)

    # Waiting.

    def when_led(self, name: str, numbers: Iterable[int], seconds: float, done: Done) -> None:
        """Go on when these partitions have leaders, as far as this broker knows, and their leaders know it, too."""
        wanted = list(numbers)
        is_open = True

        def finish(code: int) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                done(code)

        def led(code: int) -> None:
            controller = self._broker.controller
            if code or controller is None:
                finish(code)
                return
            known = [self._broker.cluster.partition_info(name, number) for number in wanted]
            leaders = {each.leader for each in known if each is not None}
            # A leader that dies now will not say that it knows.
            self._broker.loop.later(LEADERS_SECONDS, lambda: finish(ErrorCode.NONE))
            controller.office.channels.when_told(leaders, lambda: finish(ErrorCode.NONE))

        self._when(name, lambda: all(self._has_leader(name, number) for number in wanted), seconds, led)

    def when_gone(self, name: str, seconds: float, done: Done) -> None:
        self._when(name, lambda: name not in self._broker.cluster.topics, seconds, done)

    def _has_leader(self, name: str, number: int) -> bool:
        known = self._broker.cluster.partition_info(name, number)
        return known is not None and known.leader in self._broker.cluster.brokers

    def _when(self, name: str, is_so: Callable[[], bool], seconds: float, done: Done) -> None:
        if is_so():
            done(ErrorCode.NONE)
            return
        purgatory = self._broker.replicas.purgatory

        def complete() -> None:
            done(ErrorCode.NONE if is_so() else ErrorCode.REQUEST_TIMED_OUT)

        purgatory.wait([("topic", name)], lambda key: is_so(), complete, max(seconds, 0))

    def told(self, names: Iterable[str]) -> None:
        """The controller spoke of these topics."""
        for name in names:
            self._broker.replicas.purgatory.check(("topic", name))
