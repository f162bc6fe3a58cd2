"""A broker's life with ZooKeeper: it registers, stands for election, is controller while it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from milepost.cluster.controller.controller import Controller
from milepost.cluster.controller.office import ControllerSettings
from milepost.cluster.election import Elected, elect
from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.cluster.registration import BrokerIdTaken, make_nodes, register
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import WatchEvent
from milepost.cluster.zookeeper.session import Runner
from milepost.log.partition_metadata import topic_id_text

if TYPE_CHECKING:
    from tests.simulation.broker import SimulatedBroker

RETRY_SECONDS = 0.5


class Membership:
    def __init__(self, broker: SimulatedBroker, versions: ProtocolVersions):
        self.broker = broker
        self.versions = versions
        self.epoch = -1
        self.controller_id: int | None = None
        self.controller: Controller | None = None
        self.is_registered = False
        self._runner = Runner(broker.session, self._failed)

    # Told by the session.

    def on_connected(self) -> None:
        self._runner.run(make_nodes(self.versions))
        self._register()

    def on_expired(self) -> None:
        self.broker.world.note(f"{self.broker.name}: its session has expired")
        self.is_registered = False
        self._runner.clear()
        self._resign("the session expired")
        self.controller_id = None

    def on_watch(self, event: WatchEvent) -> None:
        if event.path == znodes.CONTROLLER:
            self._stand()
        elif self.controller is not None:
            self.controller.on_watch(event)

    # Registering.

    def _register(self) -> None:
        node = znodes.BrokerNode(self.broker.info.endpoints, None)
        now = self.broker.process.now_ms()
        self._runner.run(
            register(self.broker.broker_id, node, self.broker.session.session_id, now, self.versions), self._registered
        )

    def _registered(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_registered = True
        self.broker.world.note(f"{self.broker.name} is registered with epoch {epoch}")
        self._stand()

    def _failed(self, error: Exception) -> None:
        if not self.is_registered:
            if not isinstance(error, BrokerIdTaken):
                raise error
            self.broker.process.later(RETRY_SECONDS, self._try_again)
        else:
            self.broker.world.note(f"{self.broker.name}: {error}")
            self.broker.process.later(RETRY_SECONDS, self._stand)

    def _try_again(self) -> None:
        if not self.is_registered and self.broker.session.session_id:
            self._register()

    # Electing.

    def _stand(self) -> None:
        if self.is_registered:
            self._runner.run(elect(self.broker.broker_id, self.broker.process.now_ms()), self._elected)

    def _elected(self, outcome: Elected) -> None:
        self.controller_id = outcome.controller_id
        if outcome.term is not None:
            self._resign("elected anew")
            self.broker.world.note(f"{self.broker.name} is controller in epoch {outcome.term.epoch}")
            self.controller = Controller(
                outcome.term,
                ControllerSettings(self.broker.broker_id, self.versions, "PLAINTEXT"),
                self.broker.session,
                self.broker.peers,
                self.broker.process,
                self._new_topic_id,
                self._deposed,
            )
            self.controller.start()
        elif outcome.controller_id != self.broker.broker_id:
            self._resign(f"broker {outcome.controller_id} is")
            if outcome.controller_id is None:
                self.broker.process.later(RETRY_SECONDS, self._stand)

    def _new_topic_id(self) -> str:
        return topic_id_text(UUID(int=self.broker.world.random.getrandbits(128)).bytes)

    def _resign(self, reason: str) -> None:
        if self.controller is not None:
            self.broker.world.note(f"{self.broker.name} is controller no more: {reason}")
            self.controller.end()
            self.controller = None

    def _deposed(self, error: Exception) -> Any:
        self.broker.world.note(f"{self.broker.name} is controller no more: {error!r}")
        self.controller = None
        self._stand()
