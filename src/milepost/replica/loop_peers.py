"""The other brokers over sockets: a connection for each purpose, made when it is first needed and again after it failed.

The client ids are Kafka's, so that the logs of a mixed cluster read as usual:

    controller          the broker id alone
    fetcher-N           broker-B-fetcher-N
    markers             broker-B-txn-marker-sender
    verification        AddPartitionsManager-client-B
    anything else       the broker id alone

They say who talks, and prove nothing: with `proof` each connection begins by proving that both ends are brokers of one cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from milepost.client.addresses import Address
from milepost.client.loop_connection import LoopConnection
from milepost.errors import BrokerUnavailable, MilepostError
from milepost.net.event_loop import EventLoop
from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.protocol.message import Message
from milepost.replica.broker_proof import BrokerProof
from milepost.replica.metadata import BrokerInfo

DEFAULT_TIMEOUT = 30.0


def client_id(broker_id: int, purpose: str) -> str:
    if purpose.startswith("fetcher-"):
        return f"broker-{broker_id}-{purpose}"
    if purpose == "markers":
        return f"broker-{broker_id}-txn-marker-sender"
    return f"AddPartitionsManager-client-{broker_id}" if purpose == "verification" else str(broker_id)


class LoopPeers:
    def __init__(
        self,
        loop: EventLoop,
        broker_id: int,
        listener: str,
        control_listener: str | None = None,
        proof: BrokerProof | None = None,
    ):
        self._loop = loop
        self._proof = proof
        self._broker_id = broker_id
        self._listener = listener
        self._control_listener = control_listener
        self._connections: dict[tuple[int, int, str, bool], LoopConnection] = {}

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
        key = (broker.broker_id, broker.epoch, purpose, version is None)
        connection = self._connections.get(key)
        if connection is None or not connection.is_open:
            address = self._address(broker, purpose)
            if address is None:
                failure = BrokerUnavailable(f"broker {broker.broker_id} has no listener {self._listener}")
                self._loop.post(lambda: on_failure(failure))
                return
            connection = self._connections[key] = LoopConnection(
                self._loop,
                address,
                client_id=client_id(self._broker_id, purpose),
                negotiate=version is None,
                prove=None if self._proof is None else self._proof.towards(broker.broker_id),
                timeout=DEFAULT_TIMEOUT,
            )
        connection.send(request, on_answer, on_failure, version=version, timeout=timeout)

    def _address(self, broker: BrokerInfo, purpose: str) -> Address | None:
        """What comes from or goes to a controller takes the control plane, where there is one."""
        name = self._listener
        if self._control_listener is not None and purpose in ("controller", "to-controller"):
            name = self._control_listener
        endpoint = broker.endpoint(name) or broker.endpoint(self._listener)
        return Address(endpoint.host, endpoint.port) if endpoint is not None else None

    def forget(self, broker_id: int) -> None:
        for key in [key for key in self._connections if key[0] == broker_id]:
            self._connections.pop(key).close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
