"""The control plane: how long a small request waits at an idle broker, and at one that has all the data it can take.

ApiVersions is asked on one connection, every few milliseconds: on the listener of the controller where there is one, else on the one that
the data use. The load is produce in batches of 64 KB on several connections, with more in flight than the broker answers.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from benchmarks.broker.clients import Clients
from benchmarks.broker.frames import Target, batch_of, produce_frames, records_that_fit
from benchmarks.broker.load import KB64, RECORD, Measured
from benchmarks.cluster.clusters import BrokerOf, Cluster
from benchmarks.cluster.topics import make_topic, settle
from milepost.protocol.messages import ApiVersionsRequest

CONNECTIONS, IN_FLIGHT = 8, 16
PAUSE = 0.002
WARM_UP = 200
BEFORE_SECONDS = 1.0
MANY = 10_000_000


class Control:
    def __init__(self, clients: Clients, directory: Path, seconds: float):
        self.clients = clients
        self.directory = directory
        self.seconds = seconds

    def measure(self, kind: type[Cluster]) -> Measured:
        return self._measured(kind, True, "control") | self._measured(kind, False, "shared")

    def _measured(self, kind: type[Cluster], has_listener: bool, key: str) -> Measured:
        cluster = kind(self.directory / key, 1, has_control_listener=has_listener)
        try:
            cluster.start()
            make_topic(cluster, "loaded", CONNECTIONS)
            broker = cluster.brokers[1]
            port = broker.control_port if has_listener else broker.port
            self._waits(broker, port, WARM_UP * PAUSE)
            idle = self._waits(broker, port, self.seconds)
            load = threading.Thread(target=self._load, args=(broker,))
            load.start()
            time.sleep(BEFORE_SECONDS)
            loaded = self._waits(broker, port, self.seconds)
            load.join()
            own, busy = percentile(idle, 99) * 1000, percentile(loaded, 99) * 1000
            return {
                f"{key} idle": own,
                f"{key} p50": percentile(loaded, 50) * 1000,
                f"{key} p99": busy,
                f"{key} added": busy - own,
            }
        finally:
            cluster.remove()
            settle()

    def _waits(self, broker: BrokerOf, port: int, seconds: float) -> list[float]:
        found = []
        with broker.connect(port=port) as connection:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                before = time.perf_counter()
                connection.ask(ApiVersionsRequest(client_software_name="bench", client_software_version="1"))
                found.append(time.perf_counter() - before)
                time.sleep(PAUSE)
        return found

    def _load(self, broker: BrokerOf) -> None:
        """From before the first question until after the last."""
        batch = batch_of(records_that_fit(KB64, RECORD), RECORD)
        frames = produce_frames(batch, [Target("loaded", number) for number in range(CONNECTIONS)])
        seconds = self.seconds + 2 * BEFORE_SECONDS
        self.clients.produce(broker.port, frames, connections=CONNECTIONS, in_flight=IN_FLIGHT, requests=MANY, seconds=seconds)


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]
