"""Producer ids of this broker: a block of a thousand at a time, the next one asked for before the last is used up.

Since 3.0 the controller hands blocks out (AllocateProducerIds); before, every broker takes its own from ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from milepost.cluster.controller.producer_ids import allocate
from milepost.cluster.controller_channel import ControllerChannel
from milepost.cluster.member import ClusterMember
from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.errors import BrokerUnavailable
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AllocateProducerIdsRequest

EARLY = 100
"""How many are left when the next block is asked for."""


class ProducerIdBlocks:
    def __init__(self, member: ClusterMember, controller_channel: ControllerChannel, versions: ProtocolVersions):
        self._member = member
        self._controller_channel = controller_channel
        self._versions = versions
        self._ids: list[range] = []
        self._is_asked = False
        self._waiting: list[Callable[[], object]] = []

    @property
    def left(self) -> int:
        return sum(map(len, self._ids))

    def take(self) -> int:
        """A new id. Raises when there is none at the moment: `when_available` says when."""
        if self.left <= EARLY:
            self._ask()
        if not self._ids:
            raise BrokerUnavailable("the controller has not handed out producer ids yet")
        block = self._ids[0]
        self._ids[0] = block[1:]
        if not self._ids[0]:
            self._ids.pop(0)
        return block[0]

    def when_available(self, then: Callable[[], object]) -> None:
        """Go on as soon as there is an id to take."""
        if self._ids:
            then()
        else:
            self._waiting.append(then)
            self._ask()

    def _ask(self) -> None:
        if self._is_asked:
            return
        self._is_asked = True
        if self._versions.allocates_producer_ids:
            self._controller_channel.ask(
                lambda: AllocateProducerIdsRequest(broker_id=self._member.broker_id, broker_epoch=self._member.broker_epoch),
                None,
                self._answered,
            )
        else:
            self._member.run(
                allocate(self._member.broker_id, None),
                lambda result: self._got(*result),
                lambda: self._got(ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0),
            )

    def _answered(self, response: Any) -> None:
        self._got(response.error_code, response.producer_id_start, response.producer_id_len)

    def _got(self, error: int, start: int, count: int) -> None:
        self._is_asked = False
        if error == 0:
            self._ids.append(range(start, start + count))
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()  # without an id, `take` says so
