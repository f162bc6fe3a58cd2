"""Topics of a broker that is alone: made, grown, deleted, and set otherwise, in slices.

One request at a time, as with Kafka's controller: what a request finds is as the one before has left it, with all directories made or
gone. A request that has begun is done to its end, also when its client goes.

    create, grow   written down, then a log for each new partition; meanwhile those without one have no leader
    delete         written down as leaving, then each log taken away, then written down as gone

A crash in between is set right by the next start: it makes the logs that are missing, and takes away those of topics that are leaving.
All changes of a request are written together, CHANGES_AT_ONCE of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from milepost.broker.slices import Work
from milepost.broker.topic_errors import InvalidReplicaAssignment, InvalidReplicationFactor, UnknownTopic, colliding
from milepost.broker.topic_requests import ensure_new_topic, repeated
from milepost.broker.topology.protocols import DEFAULT, Failures, Growth, NewTopic, Outcome, Reassignment, Replicas
from milepost.cluster.view import metric_name
from milepost.config.topic import LogConfig
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.topic_partition import TopicPartition
from milepost.work import Turn

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.cluster.change_log import Change
    from milepost.cluster.solo import SoloCluster
    from milepost.cluster.view import TopicState
    from milepost.coordinator.group.group_coordinator import GroupCoordinator
    from milepost.coordinator.transactions.transaction_coordinator import TransactionCoordinator

logger = logging.getLogger("milepost.broker")

T = TypeVar("T")

CHANGES_AT_ONCE = 500
"""Of the same line of the file: they come into force in one piece."""

ONE = 1
"""The replication factor: there is one broker."""


class NoReassignment(MilepostError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    exit_code = 4


class AloneTopics:
    refusal: int = ErrorCode.NONE

    def __init__(self, broker: Parts, cluster: SoloCluster):
        self._broker = broker
        self._cluster = cluster
        self._turn = Turn()

    def in_turn(self, work: Work[T]) -> Work[T]:
        return self._turn.of(work)

    # Replicas: this broker has them all.

    def assign(self, partitions: int, factor: int) -> Replicas:
        """The default may be more than there are brokers, a factor that is asked for may not."""
        if factor < ONE and factor != DEFAULT:
            raise InvalidReplicationFactor(f"replication factor {factor}: give {ONE}, or {DEFAULT} for the default")
        if factor > ONE:
            raise InvalidReplicationFactor(f"replication factor {factor}: there is 1 broker, so it can be at most {ONE}")
        return dict.fromkeys(range(partitions), (self._broker.node_id,))

    def ensure_assignable(self, partition: int, broker_ids: Sequence[int]) -> None:
        if not broker_ids:
            raise InvalidReplicaAssignment(f"partition {partition} is assigned to no broker")
        if repeated(broker_ids):
            raise InvalidReplicaAssignment(
                f"partition {partition} is assigned to {list(broker_ids)}: a broker has at most one replica of it"
            )
        node_id = self._broker.node_id
        strangers = [broker_id for broker_id in broker_ids if broker_id != node_id]
        if strangers:
            raise InvalidReplicaAssignment(
                f"partition {partition} is assigned to broker {strangers[0]}, which does not exist: there is only {node_id}"
            )

    def electing(self, named: Sequence[TopicPartition] | None, is_unclean: bool) -> Work[dict[TopicPartition, Outcome]]:
        """Every partition is led already."""
        outcomes: dict[TopicPartition, Outcome] = {}
        for name in named or ():
            if self._broker.replicas.partition(name) is None:
                outcomes[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}"
            else:
                outcomes[name] = ErrorCode.ELECTION_NOT_NEEDED, f"{name} has its only replica as its leader"
            yield
        return outcomes

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """There is nowhere to go."""
        return {}

    def reassigning(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], may_change_factor: bool
    ) -> Work[dict[TopicPartition, Outcome]]:
        """Every partition is where it can be. A move to where it is already succeeds, as in Kafka."""
        outcomes: dict[TopicPartition, Outcome] = {}
        for name, replicas in targets.items():
            try:
                self._ensure_moved(name, replicas)
                outcomes[name] = ErrorCode.NONE, None
            except MilepostError as error:
                outcomes[name] = error.code, str(error)
            yield
        return outcomes

    def _ensure_moved(self, name: TopicPartition, replicas: Sequence[int] | None) -> None:
        """That a partition is where it is to be."""
        if not self._cluster.has_partition(name.topic, name.partition):
            raise UnknownTopic(f"there is no partition {name.partition} of a topic {name.topic[:60]!r}")
        if replicas is None:
            raise NoReassignment(f"partition {name.partition} of topic {name.topic} is not being moved")
        self.ensure_assignable(name.partition, replicas)

    # These are called by who has the turn; they say what became of those for which it did not work. Nobody waits for anything but the disk.

    def creating_on_first_use(self, names: Sequence[str]) -> Work[Failures]:
        broker, failures = self._broker, Failures()
        new: dict[str, NewTopic] = {}
        internal = {topic.name: topic for topic in (broker.offsets_topic, broker.transactions_topic)}
        for name in names:
            if name in self._cluster.topics:
                continue  # another request created it while this one waited
            try:
                ensure_new_topic(self._cluster, name)
                if metric_name(name) in new:
                    raise colliding(name, new[metric_name(name)].name)
            except MilepostError as error:
                failures[name] = error
                continue
            own = internal.get(name)
            configs = own.configs if own else {}
            count = own.partition_count if own else broker.config.num_partitions
            settings = LogConfig.parse(configs, broker.config)
            new[metric_name(name)] = NewTopic(name, self.assign(count, DEFAULT), configs, settings)
            yield
        failures.update((yield from self.creating(list(new.values()))))
        return failures

    def creating(self, wanted: Sequence[NewTopic], seconds: float = 0) -> Work[Failures]:
        broker, failures = self._broker, Failures()
        for some in portions(wanted):
            new = []
            for each in some:
                try:  # again: the coordinators make their topics without waiting
                    ensure_new_topic(self._cluster, each.name)
                    new.append(each)
                except MilepostError as error:
                    failures[each.name] = error
            changes = {each.name: self._cluster.new_topic(each.name, len(each.replicas), each.configs) for each in new}
            refused = yield from self.saving(changes)
            failures.update(refused)
            for each in [each for each in new if each.name not in refused]:
                broker.logs.topics[each.name] = each.settings
                yield from self._hosting(broker.cluster.topics[each.name], failures)
        broker.coordinators.topics_changed()
        return failures

    def growing(self, wanted: Mapping[str, Growth], seconds: float) -> Work[Failures]:
        broker = self._broker
        failures = yield from self.saving({name: {"partitions": name, "to": each.new.stop} for name, each in wanted.items()})
        for name in wanted.keys() - failures.keys():
            yield from self._hosting(broker.cluster.topics[name], failures)
        broker.coordinators.topics_changed()
        return failures

    def deleting(self, names: Sequence[str], seconds: float) -> Work[Failures]:
        """With a coordinator's own topic goes all it knows, as in Kafka: it starts again from nothing."""
        broker = self._broker
        coordinators: dict[str, GroupCoordinator | TransactionCoordinator] = {
            broker.offsets_topic.name: broker.groups,
            broker.transactions_topic.name: broker.transactions,
        }
        concerned = [coordinator for name, coordinator in coordinators.items() if name in names]
        for coordinator in concerned:
            coordinator.unload_all()
        failures = yield from self._offline(names)
        topics = [broker.cluster.topics[name] for name in names if name not in failures]
        failures.update((yield from self.saving({topic.name: {"leaving": topic.name} for topic in topics})))
        gone = yield from self._dropping([topic for topic in topics if topic.name not in failures], failures)
        for coordinator in concerned:
            coordinator.load_all()
        # Last: forgetting offsets is written down, and `__consumer_offsets` may be among the deleted topics.
        broker.groups.topics_deleted(gone)
        broker.coordinators.topics_changed()
        return failures

    def setting(self, configs: Mapping[str, Mapping[str, str]]) -> Work[Failures]:
        """Other settings of topics, all of them, from now on and after a restart."""
        broker = self._broker
        failures = yield from self.saving({name: {"config": name, "to": dict(given)} for name, given in configs.items()})
        for name in configs.keys() - failures.keys():
            settings = broker.logs.topics[name] = LogConfig.parse(configs[name], broker.config)
            for number in range(broker.cluster.topics[name].partitions):
                partition = broker.replicas.partition_of(name, number)
                if partition is not None:
                    partition.log.update_config(settings)
                yield
        return failures

    def saving(self, changes: Mapping[str, Change]) -> Work[Failures]:
        """Write changes down, of whatever they are."""
        failures = Failures()
        for names in portions(list(changes)):
            try:
                yield from self._cluster.saving([changes[name] for name in names])
            except MilepostError as error:
                failures.update(dict.fromkeys(names, error))
        return failures

    def _hosting(self, topic: TopicState, failures: Failures) -> Work[None]:
        try:
            for number in range(topic.partitions):
                self._broker.replicas.host(TopicPartition(topic.name, number), topic.topic_id, topic.topic_id_text)
                yield
        except MilepostError as error:
            failures[topic.name] = error

    def _offline(self, names: Sequence[str]) -> Work[Failures]:
        """Topics with a partition in a directory that is offline: nothing of them is deleted."""
        broker, failures = self._broker, Failures()
        for name in names:
            try:
                for number in range(broker.cluster.topics[name].partitions):
                    broker.logs.get(TopicPartition(name, number))
                    yield
            except MilepostError as error:
                failures[name] = error
        return failures

    def _keeping(self, topic: TopicState) -> Work[None]:
        """A topic that could not be deleted: what is deleted already is empty now, the rest answers that its directory is offline."""
        broker = self._broker
        change = self._cluster.new_topic(topic.name, topic.partitions, topic.configs, topic.topic_id_text)
        if (yield from self.saving({topic.name: change})):
            self._cluster.keep(change)
        failures = Failures()
        yield from self._hosting(broker.cluster.topics[topic.name], failures)
        for name, failure in failures.items():
            logger.error("topic %s, which could not be deleted: %s", name, failure)

    def _dropping(self, topics: list[TopicState], failures: Failures) -> Work[list[str]]:
        """Take away what topics have; the names of those of which nothing is left."""
        broker, gone = self._broker, []
        for topic in topics:
            try:
                for number in range(topic.partitions):
                    broker.replicas.drop(TopicPartition(topic.name, number))
                    yield
            except MilepostError as error:
                failures[topic.name] = error
                yield from self._keeping(topic)
                continue
            broker.replicas.topic_metrics.forget(topic.name)
            broker.logs.topics.pop(topic.name, None)
            gone.append(topic.name)
        for name, failure in (yield from self.saving({name: {"gone": name} for name in gone})).items():
            logger.warning("topic %s is deleted, but its name is free only after the next start: %s", name, failure)
        return gone

    # At once: at the start, and for coordinators, who cannot wait as clients do.

    def make_at_once(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Raises what CreateTopics answers."""
        broker, cluster = self._broker, self._cluster
        cluster.wait_until_saved()
        ensure_new_topic(cluster, name)
        settings = LogConfig.parse(configs, broker.config)
        cluster.save([cluster.new_topic(name, partitions, configs)])
        broker.logs.topics[name] = settings
        self._host(cluster.topics[name])
        broker.coordinators.topics_changed()

    def host_all(self) -> None:
        for topic in self._cluster.topics.values():
            self._host(topic)

    def _host(self, topic: TopicState) -> None:
        for number in range(topic.partitions):
            self._broker.replicas.host(TopicPartition(topic.name, number), topic.topic_id, topic.topic_id_text)

    def finish_deletions(self) -> None:
        """At the start: topics that were leaving when the broker ended have nothing left here."""
        broker = self._broker
        leaving = broker.cluster.being_deleted
        for name in [name for name in broker.logs.logs if name.topic in leaving]:
            broker.logs.delete(name)
        if not broker.logs.offline:  # or there may be more of them
            self._cluster.save([{"gone": name} for name in leaving])


def portions(names: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(names), CHANGES_AT_ONCE):
        yield names[start : start + CHANGES_AT_ONCE]
