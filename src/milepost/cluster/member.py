"""A broker's membership of a cluster with ZooKeeper: its session, its registration, and its time as controller.

    connected   the nodes of every cluster are made, the cluster's id and the settings are read, then the broker registers: the creation
                of /brokers/ids/N is its epoch. Then it stands for election
    elected     it is controller until another one is elected, it resigns, or its session ends. After it has resigned it stands again in a
                few seconds: what it failed of would fail again, and another broker may do better
    expired     it is no longer controller, and leads nothing until a LeaderAndIsr for the new registration.
                With the next session it registers again
    leaving     it asks the controller to move what it leads, then closes the session

A znode of this broker that is there already is of its own last session, which ZooKeeper ends soon, or another broker has its id: it is
tried again for a little longer than a session lasts.

A controller's request is accepted when its id and epoch are those in ZooKeeper and it is for this registration: id and epoch are looked
up once, the broker epoch when it is not the expected one (`fault_of_controller`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from milepost.clock import Clock
from milepost.cluster import registration
from milepost.cluster.controller.controller import Controller
from milepost.cluster.controller.controller_parts import ControllerSettings
from milepost.cluster.controller.election_times import ElectionTimes
from milepost.cluster.controller_election import ControllerMoved, Elected, Term, elect, read_controller, resign
from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.cluster.registration import BrokerIdTaken
from milepost.cluster.zookeeper import acl_nodes, entity_configs, znodes
from milepost.cluster.zookeeper.operations import Exists, Get, Operation, Result, Sync, WatchEvent
from milepost.cluster.zookeeper.refusals import RefusedByZooKeeper
from milepost.cluster.zookeeper.session import Runner, Session, Steps
from milepost.cluster.zookeeper.unreadable import Unreadable
from milepost.errors import MilepostError
from milepost.loop import Timers
from milepost.protocol.error_codes import ErrorCode
from milepost.replica.broker_proof import new_secret
from milepost.replica.peers import Peers

logger = logging.getLogger("milepost.cluster")

REGISTER_AGAIN_SECONDS = 0.2
GIVE_UP_AFTER_SESSIONS = 1.5
STAND_AGAIN_SECONDS = 5.0
ENTITIES_AT_A_TIME = 50


@dataclass(frozen=True, slots=True)
class MemberSettings:
    node: znodes.BrokerNode
    controller: ControllerSettings
    session_seconds: float
    proposed_cluster_id: str
    may_be_controller: bool = True
    has_authorizer: bool = False
    """So that it reads and follows ACLs."""
    new_secret: Callable[[], bytes] = new_secret


class ClusterMember:
    """`on_…` are set by the broker. `broker_epoch` is -1 until the first registration."""

    def __init__(
        self,
        given: MemberSettings,
        session: Session,
        peers: Peers,
        timers: Timers,
        monotonic: Callable[[], float],
        clock: Clock,
        cluster: ControllerMetadata,
        new_topic_id: Callable[[], str],
    ):
        self.settings = given
        self.broker_id = given.controller.broker_id
        self.cluster = cluster
        self.controller: Controller | None = None
        self.election_times = ElectionTimes(monotonic)
        self.broker_epoch = -1
        self.is_registered = False
        self.failure: Exception | None = None
        self.on_cluster_id: Callable[[str], object] = lambda cluster_id: None
        self.on_secret: Callable[[bytes], object] = lambda secret: None
        self.on_settings: Callable[[entity_configs.Stored], object] = lambda stored: None
        self.on_changed_settings: Callable[[str, dict[str, str]], object] = lambda entity, configs: None
        self.on_acls: Callable[[acl_nodes.Found], object] = lambda found: None
        self.on_changed_acls: Callable[[acl_nodes.Found], object] = lambda found: None
        self.on_registered: Callable[[], object] = lambda: None
        self.on_expired_session: Callable[[], object] = lambda: None
        self.on_failed: Callable[[Exception], object] = lambda error: None
        """This broker cannot be a member any more: another one has its id, or it is of another cluster."""
        self._session = session
        self._peers = peers
        self._timers = timers
        self._monotonic = monotonic
        self._clock = clock
        self._new_topic_id = new_topic_id
        self._runner = Runner(session, self._failed)
        self._changes_seen = -1
        self._acl_changes_seen: acl_nodes.Seen = acl_nodes.NOTHING_SEEN
        self._trusted: tuple[int, int] | None = None
        self._tries_until: float | None = None
        self._has_resigned = False
        self._is_closed = False

    # Life.

    def start(self) -> None:
        self._session.start(self)

    def close(self) -> None:
        self._is_closed = True
        self._stop_controller()
        self._runner.clear()
        self._session.close()

    def run(
        self,
        steps: Steps[Any],
        done: Callable[[Any], object] = lambda result: None,
        failed: Callable[[], object] | None = None,
    ) -> None:
        """Work on ZooKeeper on behalf of this broker, after everything that came before.

        When the session ends first the outcome is unknown: then `failed` is called, and without it nothing.
        """
        self._runner.run(steps, done, failed)

    @property
    def unreadable_znodes(self) -> int:
        return Unreadable.count

    def look(self, operations: Sequence[Operation], done: Callable[[Sequence[Result]], None]) -> None:
        """Ask ZooKeeper now, beside that queue. `done` is always called, with errors if the session ends."""
        self._session.submit(operations, done)

    @property
    def is_controller(self) -> bool:
        return self.controller is not None and self.controller.is_active

    # The session.

    def on_connected(self) -> None:
        self._tries_until = None
        self._join()

    def on_expired(self) -> None:
        logger.warning("the ZooKeeper session of broker %d expired", self.broker_id)
        self._stop_controller()
        waiting = self._runner.clear()
        self.is_registered = False
        self._trusted = None
        self.cluster.elected_id = None
        self.on_expired_session()
        for failed in waiting:
            failed()

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == znodes.CONTROLLER:
            self._stand()
        elif event.path == znodes.CONFIG_CHANGES:
            self._runner.run(self._follow_settings())
        elif event.path in acl_nodes.CHANGES:
            self._runner.run(self._follow_acls())
        if self.controller is not None:
            self.controller.on_watch(event)

    # Joining.

    def _join(self) -> None:
        if not self._is_closed:
            self._runner.run(self._join_steps(), self._joined)

    def _join_steps(self) -> Steps[int]:
        versions = self.settings.controller.versions
        yield from registration.make_nodes(versions)
        self.on_cluster_id((yield from registration.cluster_id(self.settings.proposed_cluster_id)))
        self.on_secret((yield from registration.cluster_secret(self.settings.new_secret)))
        # The list of changes is watched before the settings are read: what comes in between is read twice, not missed.
        self._changes_seen = (yield from entity_configs.watch_changes(self._changes_seen, self._clock.now_ms())).seen
        self.on_settings((yield from entity_configs.read_all()))
        if self.settings.has_authorizer:
            yield from self._read_acls()
        return (
            yield from registration.register(
                self.broker_id, self.settings.node, self._session.session_id, self._clock.now_ms(), versions
            )
        )

    def _joined(self, epoch: int) -> None:
        self.broker_epoch = epoch
        self.is_registered = True
        logger.info("broker %d is registered with epoch %d", self.broker_id, epoch)
        self.on_registered()
        self._stand()

    def _failed(self, error: Exception) -> None:
        """Of our own steps."""
        if self._is_closed:
            return
        if isinstance(error, BrokerIdTaken):
            now = self._monotonic()
            if self._tries_until is None:
                self._tries_until = now + self.settings.session_seconds * GIVE_UP_AFTER_SESSIONS
            if now < self._tries_until:
                self._timers.later(REGISTER_AGAIN_SECONDS, self._join)
                return
        if isinstance(error, ControllerMoved):
            return  # the session ended during an election; the next one begins with its own
        if isinstance(error, RefusedByZooKeeper) and self.is_registered:
            logger.error("broker %d gives up what it was doing: %s", self.broker_id, error)
            return
        logger.error("broker %d: %s", self.broker_id, error, exc_info=None if isinstance(error, MilepostError) else error)
        self.failure = error
        if isinstance(error, MilepostError):
            self.on_failed(error)

    # Settings.

    def _follow_settings(self) -> Steps[None]:
        changes = yield from entity_configs.watch_changes(self._changes_seen, self._clock.now_ms())
        self._changes_seen = changes.seen
        read = [entity for entity in changes.entities if entity.startswith(("topics/", "brokers/"))]
        found = yield from entity_configs.read(read)
        for entity, configs in found.items():
            self.on_changed_settings(entity, configs)
        if len(read) < len(changes.entities):
            self.cluster.take_clients(*(yield from entity_configs.read_clients()))

    def with_topic_settings(
        self, topics: set[str], then: Callable[[], object], failed: Callable[[], object], new: Set[str] = frozenset()
    ) -> None:
        """Go on when the settings of these topics are known: at once, or after they were read. Those of `new` are read in any case, as in
        Kafka: what was read before may be another topic's of that name."""
        unknown = sorted(topic for topic in topics if topic in new or topic not in self.cluster.stored_topics)
        self.with_fresh_settings([entity_configs.topic_entity(topic) for topic in unknown], then, failed)

    def with_fresh_settings(self, entities: list[str], then: Callable[[], object], failed: Callable[[], object]) -> None:
        """Go on when the settings of these were read anew."""

        def read() -> Steps[None]:
            # Some at a time, with others served in between: a request may name ten thousand topics.
            for first in range(0, len(entities), ENTITIES_AT_A_TIME):
                found = yield from entity_configs.read(entities[first : first + ENTITIES_AT_A_TIME])
                for entity, configs in found.items():
                    self.on_changed_settings(entity, configs)

        if entities and self.is_registered:
            self._runner.run(read(), lambda _: then(), failed)
        else:
            then()

    def with_fresh_clients(self, then: Callable[[], object]) -> None:
        """Go on when quotas and users were read anew; with those that are known, if ZooKeeper cannot be asked."""

        def read() -> Steps[None]:
            self.cluster.take_clients(*(yield from entity_configs.read_clients()))

        if self.is_registered:
            self._runner.run(read(), lambda _: then(), then)
        else:
            then()

    # ACLs.

    def _read_acls(self) -> Steps[None]:
        yield from acl_nodes.make_nodes()
        self._acl_changes_seen = (yield from acl_nodes.watch_changes(self._acl_changes_seen, self._clock.now_ms())).seen
        self.on_acls((yield from acl_nodes.read_all()))

    def _follow_acls(self) -> Steps[None]:
        patterns, self._acl_changes_seen = yield from acl_nodes.watch_changes(self._acl_changes_seen, self._clock.now_ms())
        if patterns is None:
            self.on_acls((yield from acl_nodes.read_all()))
        elif patterns:
            self.on_changed_acls((yield from acl_nodes.read(patterns)))

    # The controller.

    def _stand(self) -> None:
        steps = (
            elect(self.broker_id, self._clock.now_ms(), knows_kraft=self.settings.controller.versions.knows_kraft)
            if self.settings.may_be_controller and not self._has_resigned
            else self._look()
        )
        self._runner.run(steps, self._elected)

    def _look(self) -> Steps[Elected]:
        """Who is controller, for one that does not want to be, or not now."""
        yield [Exists(znodes.CONTROLLER, watch=True)]
        return Elected((yield from read_controller()))

    def _elected(self, outcome: Elected) -> None:
        self.cluster.elected_id = outcome.controller_id
        if outcome.term is not None:
            self._start_controller(outcome.term)
        elif outcome.controller_id != self.broker_id:
            self._stop_controller()

    def _start_controller(self, term: Term) -> None:
        self._stop_controller()

        def moved(error: Exception) -> None:
            self.controller = None
            if isinstance(error, ControllerMoved):
                logger.warning("broker %d is no longer controller: %s", self.broker_id, error)
                self._stand()
            else:
                logger.error(
                    "the controller failed and resigns: %s",
                    error,
                    exc_info=None if isinstance(error, RefusedByZooKeeper) else error,
                )
                self._has_resigned = True
                self._timers.later(STAND_AGAIN_SECONDS, self._stand_again)
                self._runner.run(resign(term))

        self.controller = Controller(
            term,
            self.settings.controller,
            self._session,
            self._peers,
            self._timers,
            self._new_topic_id,
            self.election_times,
            moved,
        )
        self.controller.start()

    def _stand_again(self) -> None:
        self._has_resigned = False
        if self.is_registered and not self._is_closed:
            self._stand()

    def _stop_controller(self) -> None:
        if self.controller is not None:
            self.controller.end()
            self.controller = None

    def fault_of_controller(
        self, controller_id: int, controller_epoch: int, broker_epoch: int | None, then: Callable[[int], object]
    ) -> None:
        """What speaks against a request, by what ZooKeeper says now, as an error code; none is 0. `broker_epoch` is None where the
        version of the request has no field for it.

        An epoch that ZooKeeper knows nothing of is refused like an old one: no controller could name it.
        """
        if self._trusted is not None:
            if controller_epoch < self._trusted[1]:
                then(ErrorCode.STALE_CONTROLLER_EPOCH)
                return
            if self._trusted == (controller_id, controller_epoch) and broker_epoch in (None, self.broker_epoch):
                then(ErrorCode.NONE)
                return
        mine = znodes.broker_path(self.broker_id)

        def look() -> Steps[int]:
            fault = judged((yield [Get(znodes.CONTROLLER), Get(znodes.CONTROLLER_EPOCH), Exists(mine)]))
            if fault != ErrorCode.NONE:
                # The server that we ask may not have heard of it yet, and a controller that is refused does not say it again.
                _, *found = yield [
                    Sync(znodes.CONTROLLER_EPOCH),
                    Get(znodes.CONTROLLER),
                    Get(znodes.CONTROLLER_EPOCH),
                    Exists(mine),
                ]
                fault = judged(found)
            return fault

        def judged(found: Sequence[Result]) -> int:
            named, current, registered = found
            if not current.ok or not current.data.isdigit() or controller_epoch > int(current.data):
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if controller_epoch < int(current.data):
                return ErrorCode.STALE_CONTROLLER_EPOCH
            if not named.ok or znodes.controller_id(named.data) != controller_id:
                return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            self._trusted = (controller_id, controller_epoch)
            self.cluster.elected_id = controller_id
            epoch = registered.stat.czxid if registered.ok and registered.stat is not None else None
            return ErrorCode.NONE if broker_epoch in (None, epoch) else ErrorCode.STALE_BROKER_EPOCH

        self._runner.run(look(), then, lambda: then(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))

    # Being alive.

    def ask_zookeeper(self, answered: Callable[[], object]) -> None:
        """Call back when ZooKeeper has answered, in this session or in the next."""

        def done(results: Any) -> None:
            if results[0].ok:
                answered()
            elif not self._is_closed:
                self._timers.later(REGISTER_AGAIN_SECONDS, lambda: self.ask_zookeeper(answered))

        self._session.submit([Exists(znodes.BROKER_IDS)], done)
