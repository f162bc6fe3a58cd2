"""The controller's way to each broker: a queue, one request in flight, repeated until it is answered.

Requests to one broker arrive in the order in which they were decided, whatever the connection does; brokers do not wait for each other. A
request that gets no answer is sent again after a moment: brokers accept a repeated one. When a broker fails its queue is dropped;
when it is back, it gets the whole state again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from milepost.errors import MilepostError
from milepost.loop import Timer, Timers
from milepost.protocol.message import Message
from milepost.replica.metadata import BrokerInfo
from milepost.replica.peers import Peers

logger = logging.getLogger("milepost.cluster")

RETRY_SECONDS = 0.1
REQUEST_SECONDS = 30.0

OnAnswer = Callable[[Any], object]


class Queued(NamedTuple):
    request: Message
    version: int
    on_answer: OnAnswer


class BrokerChannel:
    def __init__(self, broker: BrokerInfo, peers: Peers, timers: Timers):
        self.broker = broker
        self._peers = peers
        self._timers = timers
        self._queue: deque[Queued] = deque()
        self._is_busy = False
        self._is_closed = False
        self._retry: Timer | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def send(self, request: Message, version: int, on_answer: OnAnswer) -> None:
        self._queue.append(Queued(request, version, on_answer))
        if not self._is_busy:
            self._send_next()

    def when_delivered(self, then: Callable[[], object]) -> None:
        """Call back when everything that is queued now has been answered."""
        if not self._queue:
            then()
            return
        last = self._queue[-1]

        def answered(response: Any) -> None:
            last.on_answer(response)
            then()

        self._queue[-1] = last._replace(on_answer=answered)

    def close(self) -> None:
        self._is_closed = True
        self._queue.clear()
        if self._retry is not None:
            self._retry.cancel()

    def _send_next(self) -> None:
        if self._is_closed or not self._queue:
            self._is_busy = False
            return
        self._is_busy = True
        request, version, _ = self._queue[0]
        self._peers.send(
            self.broker, request, version, self._answered, self._failed, purpose="controller", timeout=REQUEST_SECONDS
        )

    def _answered(self, response: Any) -> None:
        if not self._is_closed:
            answered = self._queue.popleft()
            answered.on_answer(response)
            self._send_next()

    def _failed(self, error: MilepostError) -> None:
        if not self._is_closed:
            logger.info("broker %d: retrying %s: %s", self.broker.broker_id, type(self._queue[0].request).__name__, error)
            self._retry = self._timers.later(RETRY_SECONDS, self._send_next)


class BrokerChannels:
    def __init__(self, peers: Peers, timers: Timers):
        self._peers = peers
        self._timers = timers
        self._channels: dict[int, BrokerChannel] = {}

    def add(self, broker: BrokerInfo) -> None:
        self._channels[broker.broker_id] = BrokerChannel(broker, self._peers, self._timers)

    def remove(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            channel.close()

    def send(self, broker_id: int, request: Message, version: int, on_answer: OnAnswer) -> None:
        channel = self._channels.get(broker_id)
        if channel is not None:
            channel.send(request, version, on_answer)

    def when_delivered(self, broker_ids: Iterable[int], then: Callable[[], object]) -> None:
        """Call back when these brokers have answered everything that is on its way to them; never, if one of them dies first."""
        untold = {broker_id for broker_id in broker_ids if broker_id in self._channels}
        if not untold:
            then()

        def told(broker_id: int) -> None:
            untold.discard(broker_id)
            if not untold:
                then()

        for broker_id in sorted(untold):
            self._channels[broker_id].when_delivered(partial(told, broker_id))

    @property
    def waiting(self) -> int:
        return sum(map(len, self._channels.values()))

    def close(self) -> None:
        for broker_id in list(self._channels):
            self.remove(broker_id)
