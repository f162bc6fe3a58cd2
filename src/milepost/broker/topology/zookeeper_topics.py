"""Topics of a cluster, created, grown and deleted by writes to ZooKeeper; a request may wait until the cluster has followed.

A request is done when this broker's metadata shows it: every partition with a leader, or the topic gone. After the time that the client
gave it is answered with 7 REQUEST_TIMED_OUT, and happens all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from milepost.broker.slices import Work, called_back, gathered
from milepost.broker.topic_errors import InvalidReplicaAssignment, InvalidReplicationFactor, TopicExists, TopicNotChanged
from milepost.broker.topic_requests import ensure_new_topic, repeated
from milepost.broker.topology.protocols import DEFAULT, Failures, Growth, NewTopic, Outcome, Reassignment, Replicas
from milepost.cluster import topic_writes
from milepost.cluster.replica_assignment import assign_replicas
from milepost.cluster.zookeeper.session import Steps
from milepost.cluster.zookeeper.znodes import Assignment
from milepost.errors import MilepostError
from milepost.log.directory.partition_metadata import random_topic_id
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    import random

    from milepost.broker.internal_topics.coordinator_log import InternalTopic
    from milepost.cluster.controller.controller import Controller
    from milepost.cluster.controller_metadata import ControllerMetadata
    from milepost.cluster.member import ClusterMember
    from milepost.cluster.protocol_versions import ProtocolVersions
    from milepost.config.broker import BrokerConfig
    from milepost.loop import Loop
    from milepost.replica.manager import ReplicaManager

logger = logging.getLogger("milepost.broker")

LEADERS_SECONDS = 2.0
PREFERRED, UNCLEAN = 0, 1
"""The elections of a controller."""

Done = Callable[[int], object]
Begin = Callable[[Done], object]
T = TypeVar("T")


class Administering(Protocol):
    """What topics of a cluster are changed by."""

    @property
    def rng(self) -> random.Random: ...
    @property
    def loop(self) -> Loop: ...
    @property
    def cluster(self) -> ControllerMetadata: ...
    @property
    def member(self) -> ClusterMember: ...
    @property
    def versions(self) -> ProtocolVersions: ...
    @property
    def replicas(self) -> ReplicaManager: ...
    @property
    def controller(self) -> Controller | None: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def offsets_topic(self) -> InternalTopic: ...
    @property
    def transactions_topic(self) -> InternalTopic: ...


class ZooKeeperTopics:
    def __init__(self, broker: Administering):
        self._broker = broker
        self._being_made: set[str] = set()

    @property
    def refusal(self) -> int:
        return ErrorCode.NOT_CONTROLLER if self._broker.controller is None else ErrorCode.NONE

    def in_turn(self, work: Work[T]) -> Work[T]:
        """ZooKeeper decides who was first."""
        return work

    # Replicas.

    @property
    def racks(self) -> dict[int, str | None]:
        return {broker_id: broker.rack for broker_id, broker in self._broker.cluster.brokers.items()}

    def assign(self, partitions: int, factor: int) -> Replicas:
        """On brokers that are alive."""
        if factor == DEFAULT:
            factor = self._broker.config.default_replication_factor
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

    # Topics: written, and then waited for.

    def creating(self, wanted: Sequence[NewTopic], seconds: float) -> Work[Failures]:
        def create(topic: NewTopic) -> Begin:
            write = partial(self._create, topic.name, topic.replicas, topic.configs)
            return partial(self._then, write, partial(self._on_leaders_elected, topic.name, topic.replicas, seconds))

        failures = yield from self._all({topic.name: create(topic) for topic in wanted})
        for name, failure in failures.items():
            if failure.code == TopicExists.code:
                failures[name] = TopicExists(f"topic {name} already exists")
        return failures

    def growing(self, wanted: Mapping[str, Growth], seconds: float) -> Work[Failures]:
        def grow(name: str, growth: Growth) -> Begin:
            write = partial(self._grow, name, growth.new.stop, growth.replicas)
            return partial(self._then, write, partial(self._on_leaders_elected, name, growth.new, seconds))

        return self._all({name: grow(name, growth) for name, growth in wanted.items()})

    def deleting(self, names: Sequence[str], seconds: float) -> Work[Failures]:
        def delete(name: str) -> Begin:
            write = partial(self._write, topic_writes.delete_topic(name))
            return partial(self._then, write, partial(self._on_deleted, name, seconds))

        failures = yield from self._all({name: delete(name) for name in names})
        for name, failure in failures.items():
            if failure.code != ErrorCode.REQUEST_TIMED_OUT:
                failures[name] = TopicNotChanged(failure.code, "the topic could not be marked for deletion")
        return failures

    def _then(self, write: Begin, wait: Begin, done: Done) -> None:
        write(lambda code: done(code) if code else wait(done))

    def _all(self, begins: Mapping[str, Begin]) -> Work[Failures]:
        codes = yield from gathered(list(begins.values()))
        return {name: TopicNotChanged(code) for name, code in zip(begins, codes, strict=True) if code}

    def _create(self, name: str, replicas: Replicas, configs: Mapping[str, str], done: Done) -> None:
        topic_id = random_topic_id(self._broker.rng)
        self._write(topic_writes.create_topic(name, replicas, configs, topic_id, self._broker.versions), done)

    def _grow(self, name: str, total: int, given: Replicas | None, done: Done) -> None:
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

    # Topics on first use: who asked for them will ask again.

    def creating_on_first_use(self, names: Sequence[str]) -> Work[Failures]:
        broker, failures = self._broker, Failures()
        internal = {topic.name: topic for topic in (broker.offsets_topic, broker.transactions_topic)}
        for name in names:
            try:
                if name in internal:
                    self.create_internal(internal[name])
                else:
                    ensure_new_topic(broker.cluster, name)
                    self.create_in_background(name, broker.config.num_partitions, DEFAULT, {})
                failures[name] = TopicNotChanged(ErrorCode.LEADER_NOT_AVAILABLE)
            except MilepostError as error:
                failures[name] = error
            yield
        return failures

    def create_in_background(self, name: str, partitions: int, factor: int, configs: Mapping[str, str]) -> None:
        if name in self._being_made:
            return
        replicas = self.assign(partitions, factor)
        self._being_made.add(name)
        self._create(name, replicas, configs, lambda code: self._being_made.discard(name))

    def create_internal(self, topic: InternalTopic) -> None:
        self.create_in_background(topic.name, topic.partition_count, topic.factor, topic.configs)

    # Waiting.

    def _on_leaders_elected(self, name: str, numbers: Iterable[int], seconds: float, done: Done) -> None:
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
            controller.parts.channels.when_delivered(leaders, lambda: finish(ErrorCode.NONE))

        self._when(name, lambda: all(self._has_leader(name, number) for number in wanted), seconds, led)

    def _on_deleted(self, name: str, seconds: float, done: Done) -> None:
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

    def metadata_changed(self, names: Iterable[str]) -> None:
        """The controller spoke of these topics."""
        for name in names:
            self._broker.replicas.purgatory.check(("topic", name))

    # Partitions, by the controller.

    def electing(self, named: Sequence[TopicPartition] | None, is_unclean: bool) -> Work[dict[TopicPartition, Outcome]]:
        controller, kind = self._controller, UNCLEAN if is_unclean else PREFERRED
        chosen = None if named is None else list(named)
        codes = yield from called_back(partial(controller.elect_leaders, chosen, kind))
        return {name: (code, error_name(code) if code else None) for name, code in codes.items()}

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        context = self._controller.context
        found = ((name, context.assignment(name)) for name in context.reassigned)
        return {name: Reassignment(each.replicas, each.adding, each.removing) for name, each in found}

    def reassigning(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], may_change_factor: bool
    ) -> Work[dict[TopicPartition, Outcome]]:
        """The answer says that the moves have begun; see `controller/reassignment` for how they go on."""
        controller = self._controller
        for name, replicas in targets.items():
            current = controller.context.assignment(name).target
            if not may_change_factor and replicas is not None and current and len(replicas) != len(current):
                raise InvalidReplicationFactor(f"{name} has {len(current)} replicas, and {len(replicas)} are named")
            yield
        wanted = {name: None if replicas is None else tuple(replicas) for name, replicas in targets.items()}
        outcomes: dict[TopicPartition, Outcome] = yield from called_back(partial(controller.alter_reassignments, wanted))
        return outcomes

    @property
    def _controller(self) -> Controller:
        controller = self._broker.controller
        if controller is None:
            raise TopicNotChanged(self.refusal)
        return controller
