"""The other brokers, for one whose requests are handled by a pool of threads (`broker/exclusive_gate`).

Connections belong to the loop: what a handler sends is handed over to it, in the order in which it was sent. Answers and failures come in
turn, as everything does that the loop runs for the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from milepost.broker.exclusive_gate import GatedLoop
from milepost.errors import MilepostError
from milepost.net.event_loop import EventLoop
from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.protocol.message import Message
from milepost.replica.metadata import BrokerInfo
from milepost.replica.peers import Peers


class GatedPeers:
    def __init__(self, peers: Peers, loop: EventLoop, in_turn: GatedLoop):
        self._peers = peers
        self._loop = loop
        self._in_turn = in_turn.run_in_turn

    def send(
        self,
        broker: BrokerInfo,
        request: Message | RepeatedFetch,
        version: int | None,
        on_answer: Callable[[Any], object],
        on_failure: Callable[[MilepostError], object],
        *,
        purpose: str,
        timeout: float | None = None,
    ) -> None:
        answer, fail = partial(self._in_turn, on_answer), partial(self._in_turn, on_failure)
        self._loop.post(lambda: self._peers.send(broker, request, version, answer, fail, purpose=purpose, timeout=timeout))

    def forget(self, broker_id: int) -> None:
        self._loop.post(lambda: self._peers.forget(broker_id))
