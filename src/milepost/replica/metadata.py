"""Who is in the cluster and who leads what: plain values."""

from __future__ import annotations

from typing import NamedTuple


class Endpoint(NamedTuple):
    """One listener of a broker, as others reach it."""

    listener: str
    security_protocol: str
    host: str
    port: int


class BrokerInfo(NamedTuple):
    """A broker of the cluster. Its epoch rises each time it registers: requests that name an older one are of a life before."""

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.listener == listener), None)


NO_LEADER = -1
LEADER_DURING_DELETE = -2


class PartitionInfo(NamedTuple):
    """What everybody may know about a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline: tuple[int, ...] = ()
    partition_epoch: int = 0
    controller_epoch: int = 0
