"""A controller, from the moment it is elected until it resigns: what it does when something happens, one event after the other.

    start         watch first, then read: brokers, topics, states, deletions; send all brokers who is alive; initialize the states of
                  replicas and partitions, elect leaders where there are none; continue what the last controller began
    a watch fires the part that it is for reads again (and watches again), and acts on the difference
    a request     AlterPartition, ControlledShutdown, ElectLeaders, AlterPartitionReassignments, AllocateProducerIds: steps in that queue

Events never overlap: each runs to its end, over all the answers of ZooKeeper that it needs, before the next begins (`Runner`). A write that
is refused because another controller was elected (`ControllerMoved`) ends this one at once: it clears its queue and closes its
channels. Requests that wait in it are answered with NOT_CONTROLLER (41), and their senders ask the next one.

A write or read that ZooKeeper refuses, over an ACL for instance, ends the event that needs it, and a request with UNKNOWN_SERVER_ERROR
(-1); the controller goes on with the next event. Only one that cannot take over resigns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeVar

from milepost.cluster.controller.broker_changes import BrokerChanges, read_brokers
from milepost.cluster.controller.context import Replica
from milepost.cluster.controller.controller_parts import ControllerParts, ControllerSettings
from milepost.cluster.controller.election_times import ElectionTimes
from milepost.cluster.controller.isr_changes import IsrChanges, Proposal, Verdict
from milepost.cluster.controller.leader_moves import PREFERRED, LeaderMoves
from milepost.cluster.controller.partition_states import Outcome
from milepost.cluster.controller.partition_store import read_states
from milepost.cluster.controller.producer_ids import allocate
from milepost.cluster.controller.reassignment import Answer, Reassignment
from milepost.cluster.controller.states import ReplicaStatus
from milepost.cluster.controller.topic_changes import TopicChanges
from milepost.cluster.controller.topic_deletion import TopicDeletion
from milepost.cluster.controller_election import Term, delete_notes
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Children, Exists, Get, WatchEvent
from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper
from milepost.cluster.zookeeper.session import Runner, Session, Steps
from milepost.loop import Timer, Timers
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.metadata import BrokerInfo
from milepost.replica.peers import Peers
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")

FIRST_REBALANCE_SECONDS = 5.0
T = TypeVar("T")


class Controller:
    def __init__(
        self,
        term: Term,
        settings: ControllerSettings,
        session: Session,
        peers: Peers,
        timers: Timers,
        new_topic_id: Callable[[], str],
        election_times: ElectionTimes,
        on_moved: Callable[[Exception], object],
    ):
        self.parts = ControllerParts(term, settings, peers, timers)
        self.context = self.parts.context
        self.deletion = TopicDeletion(self.parts)
        self.reassignment = Reassignment(self.parts, self.deletion)
        self.brokers = BrokerChanges(self.parts, self.deletion, self.reassignment)
        self.topics = TopicChanges(self.parts, new_topic_id)
        self.isr = IsrChanges(self.parts, self.reassignment)
        self.moves = LeaderMoves(self.parts)
        self.is_active = True
        self.is_ready = False
        """Whether it knows what there is; before that, requests are better asked again later."""
        self._refusals: dict[int, Callable[[], object]] = {}
        self._asked = count()
        self._timers = timers
        self._rebalance: Timer | None = None
        self._election_times = election_times
        self._on_moved = on_moved
        self._runner = Runner(session, self._failed)
        self.parts.requests.on_leader_and_isr = self._on_leader_and_isr_answer
        self.parts.requests.on_stop_replica = lambda broker_id, request, response: self.run(
            self.deletion.answered(broker_id, request, response)
        )

    # Life.

    def start(self) -> None:
        self._runner.run(self._become_controller())

    def run(
        self, steps: Steps[T], done: Callable[[T], object] = lambda result: None, refused: Callable[[], object] = lambda: None
    ) -> None:
        """Run steps after everything that came before; `refused` is called instead of `done` if ZooKeeper refuses what they need."""

        def event() -> Steps[Callable[[], object]]:
            try:
                result = yield from steps
            except RefusedByZooKeeper as error:
                logger.error("the controller gives up what it was doing, until something asks for it again: %s", error)
                return refused
            return lambda: done(result)

        if self.is_active:
            self._runner.run(event(), lambda finish: finish())
        else:
            steps.close()

    def end(self) -> None:
        """Stop acting, at once and for good."""
        self.is_active = False
        self._runner.clear()
        self.parts.channels.close()
        if self._rebalance is not None:
            self._rebalance.cancel()
        refusals, self._refusals = self._refusals, {}
        for refuse in refusals.values():
            refuse()

    def _failed(self, error: Exception) -> None:
        self.end()
        self._on_moved(error)

    def _become_controller(self) -> Steps[None]:
        logger.info("broker %d is controller in epoch %d", self.parts.settings.broker_id, self.parts.term.epoch)
        context = self.context
        isr_changes, log_dir_events, deletions, _, _ = yield [
            Children(znodes.ISR_CHANGES, watch=True),
            Children(znodes.LOG_DIR_EVENTS, watch=True),
            Children(znodes.DELETE_TOPICS, watch=True),
            Exists(znodes.PREFERRED_ELECTION, watch=True),
            Exists(znodes.REASSIGN_PARTITIONS, watch=True),
        ]
        # What they are about is read again below.
        old = [f"{znodes.ISR_CHANGES}/{name}" for name in isr_changes.children]
        old += [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in log_dir_events.children]
        yield from delete_notes(self.parts.term, old)
        context.brokers = yield from read_brokers({})
        yield from self.topics.load()
        context.leadership = yield from read_states(context.partitions)
        self.is_ready = True
        for broker in context.brokers.values():
            self.parts.channels.add(broker)
        self._note_deletions(set(deletions.children))
        self.parts.requests.update_all_brokers()
        self.parts.requests.send()
        yield from self.parts.replicas.start()
        yield from self.parts.partitions.start()
        yield from self.reassignment.resume_all()
        yield from self.deletion.enqueue(deletions.children)
        yield from self._legacy_reassignment()
        yield from self._legacy_preferred_election()
        if self.parts.settings.auto_leader_rebalance:
            self._rebalance = self._timers.later(FIRST_REBALANCE_SECONDS, self._rebalance_leaders)

    def _note_deletions(self, topics: set[str]) -> None:
        """Before anything is started again for them. Those with a replica on a dead broker wait for it."""
        self.context.deleting |= topics & self.context.topic_ids.keys()
        self.context.ineligible |= {
            replica.partition.topic
            for topic in self.context.deleting
            for replica in self.context.replicas_of_topic(topic)
            if not self.context.is_reachable(replica.broker_id, replica.partition)
        }

    def _rebalance_leaders(self) -> None:
        self.run(self.moves.rebalance())
        self._rebalance = self._timers.later(self.parts.settings.leader_imbalance_check_interval_seconds, self._rebalance_leaders)

    # Watches.

    def on_watch(self, event: WatchEvent) -> None:
        path = event.path
        if path == znodes.BROKER_IDS or path.startswith(f"{znodes.BROKER_IDS}/"):
            self.run(self._election_times.of(self.brokers.changed()))
        elif path == znodes.TOPICS:
            self.run(self.topics.changed())
        elif path.startswith(f"{znodes.TOPICS}/"):
            self.run(self.topics.grown(path.removeprefix(f"{znodes.TOPICS}/")))
        elif path == znodes.DELETE_TOPICS:
            self.run(self._deletions_asked())
        elif path == znodes.ISR_CHANGES:
            self.run(self.isr.notified())
        elif path == znodes.LOG_DIR_EVENTS:
            self.run(self._directories_failed())
        elif path == znodes.REASSIGN_PARTITIONS:
            self.run(self._legacy_reassignment())
        elif path == znodes.PREFERRED_ELECTION:
            self.run(self._legacy_preferred_election())

    def _deletions_asked(self) -> Steps[None]:
        (listed,) = yield [Children(znodes.DELETE_TOPICS, watch=True)]
        yield from self.deletion.enqueue(set(listed.children) - self.context.deleting)

    def _directories_failed(self) -> Steps[None]:
        """Brokers whose directory failed are sent LeaderAndIsr again: their responses say what they lost."""
        (listed,) = yield [Children(znodes.LOG_DIR_EVENTS, watch=True)]
        paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in listed.children]
        answers = yield [Get(path) for path in paths]
        failed = {znodes.failed_broker(answer.data) for answer in answers if answer.ok}
        replicas = self.context.replicas_on(broker_id for broker_id in self.context.brokers if broker_id in failed)
        yield from self.parts.replicas.change(replicas, ReplicaStatus.ONLINE)
        yield from delete_notes(self.parts.term, paths)

    def _on_leader_and_isr_answer(self, broker: BrokerInfo, response: Any) -> None:
        """What a broker has lost. What it said in a registration that is over says nothing about the next one."""
        broker_id = broker.broker_id
        known = self.context.brokers.get(broker_id)
        if known is None or known.epoch != broker.epoch:
            return
        names = {each.topic_id: each.partition_errors for each in response.topics}
        by_id = {self.parts.requests.topic_id(topic): topic for topic in self.context.topic_ids}
        lost = {
            TopicPartition(by_id[topic_id], each.partition_index)
            for topic_id, errors in names.items()
            for each in errors
            if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR and topic_id in by_id
        }
        lost |= {
            TopicPartition(each.topic_name, each.partition_index)
            for each in response.partition_errors
            if each.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        }
        new = lost - self.context.offline_directories.get(broker_id, set())
        if new:
            self.context.offline_directories.setdefault(broker_id, set()).update(new)
            self.run(self.brokers.replicas_lost([Replica(partition, broker_id) for partition in sorted(new)]))

    # What old tools ask for through ZooKeeper.

    def _legacy_reassignment(self) -> Steps[None]:
        (found,) = yield [Get(znodes.REASSIGN_PARTITIONS)]
        yield [Exists(znodes.REASSIGN_PARTITIONS, watch=True)]
        if not found.ok:
            return
        wanted = znodes.parse_reassignment(found.data) or {}
        answers = yield from self.reassignment.alter({TopicPartition(*name): target for name, target in wanted.items()})
        for partition, (error, message) in answers.items():
            if error:
                logger.warning("reassignment of %s is refused: %s", partition, message)
        yield from delete_notes(self.parts.term, [znodes.REASSIGN_PARTITIONS])

    def _legacy_preferred_election(self) -> Steps[None]:
        (found,) = yield [Get(znodes.PREFERRED_ELECTION)]
        yield [Exists(znodes.PREFERRED_ELECTION, watch=True)]
        if not found.ok:
            return
        wanted = znodes.parse_partition_list(found.data) or []
        yield from self.moves.elect([TopicPartition(*name) for name in wanted], PREFERRED)
        yield from delete_notes(self.parts.term, [znodes.PREFERRED_ELECTION])

    # Requests of brokers and clients.

    def _answer(self, steps: Steps[T], done: Callable[[T], object], error: Callable[[int], T]) -> None:
        """Run the steps of a request; `done` is called once, with an `error` if this controller's time ends before."""
        number = next(self._asked)

        def answered(result: T) -> None:
            if self._refusals.pop(number, None) is not None:
                done(result)

        if self.is_active:
            self._refusals[number] = lambda: done(error(ErrorCode.NOT_CONTROLLER))
            self.run(steps, answered, lambda: answered(error(ErrorCode.UNKNOWN_SERVER_ERROR)))
        else:
            steps.close()
            done(error(ErrorCode.NOT_CONTROLLER))

    def alter_partition(
        self,
        broker_id: int,
        broker_epoch: int,
        proposals: Mapping[TopicPartition, Proposal],
        version: int,
        done: Callable[[int, dict[TopicPartition, Verdict]], object],
    ) -> None:
        def answered(result: tuple[int, dict[TopicPartition, Verdict]]) -> None:
            done(*result)
            self.run(self.isr.go_on_moving(list(result[1])))

        steps = self.isr.alter(broker_id, broker_epoch, proposals, version=version)
        self._answer(steps, answered, lambda error: (error, {}))

    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int | None, done: Callable[[int, list[TopicPartition]], object]
    ) -> None:
        """`broker_epoch` is None where the version of the request has no field for it."""

        def steps() -> Steps[tuple[int, list[TopicPartition]]]:
            known = self.context.brokers.get(broker_id)
            if known is None:
                return ErrorCode.BROKER_NOT_AVAILABLE, []
            if broker_epoch not in (None, known.epoch):
                return ErrorCode.STALE_BROKER_EPOCH, []
            return 0, (yield from self.moves.shut_down(broker_id))

        self._answer(steps(), lambda result: done(*result), lambda error: (error, []))

    def elect_leaders(self, partitions: list[TopicPartition] | None, kind: int, done: Callable[[Outcome], object]) -> None:
        self._answer(self.moves.elect(partitions, kind), done, lambda error: dict.fromkeys(partitions or (), error))

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, tuple[int, ...] | None],
        done: Callable[[dict[TopicPartition, Answer]], object],
    ) -> None:
        def answers(error: int) -> dict[TopicPartition, Answer]:
            return dict.fromkeys(wanted, (error, None))

        self._answer(self.reassignment.alter(wanted), done, answers)

    def allocate_producer_ids(self, broker_id: int, broker_epoch: int, done: Callable[[int, int, int], object]) -> None:
        """`done(error, first id, how many)`."""

        def steps() -> Steps[tuple[int, int, int]]:
            known = self.context.brokers.get(broker_id)
            if known is None or known.epoch != broker_epoch:
                return ErrorCode.STALE_BROKER_EPOCH, 0, 0
            return (yield from allocate(broker_id, self.parts.term))

        self._answer(steps(), lambda result: done(*result), lambda error: (error, 0, 0))
