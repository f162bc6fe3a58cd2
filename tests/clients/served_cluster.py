"""Three brokers in the place of one, for the same tests: `MILEPOST_CLUSTER=1 pytest tests/clients`."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

from milepost.cluster.zookeeper.server import ZooKeeperServer
from tests.clients.served import SETTINGS, Served
from tests.cluster.processes import ClusterProcesses, free_port

VARIABLE = "MILEPOST_CLUSTER"
CLUSTER_SETTINGS = {
    **SETTINGS,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "zookeeper.session.timeout.ms": "30000",
}


class ServedCluster(Served):
    def __init__(self, directory: Path, settings: dict[str, str] | None = None):
        self.zookeeper = ZooKeeperServer(str(directory / "zookeeper"), free_port())
        self.cluster = ClusterProcesses(directory, self.zookeeper.address, settings={**CLUSTER_SETTINGS, **(settings or {})})
        self.zookeeper.start()
        try:
            self.zookeeper.wait()
            self.cluster.__enter__()
        except BaseException:
            self.zookeeper.stop()
            raise
        self.bootstrap = self.cluster.brokers[1].address
        self._numbers = itertools.count(1)

    @property
    def node_ids(self) -> set[int]:
        return set(self.cluster.brokers)

    @property
    def directories(self) -> set[str]:
        return {str(broker.data) for broker in self.cluster.brokers.values()}

    @property
    def topic_settings(self) -> set[str]:
        return {"min.insync.replicas=2"}

    @property
    def keeps_group_settings(self) -> bool:
        """Kafka does not either, with ZooKeeper."""
        return False

    @property
    def log_level(self) -> str:
        """They are started with `-v`."""
        return "INFO"

    def stop(self) -> None:
        try:
            for broker in self.cluster.brokers.values():
                assert broker.stop() == 0, f"broker {broker.broker_id} ended badly:\n{broker.text()[-4000:]}"
                assert "Traceback" not in broker.text(), (
                    f"an exception escaped in broker {broker.broker_id}:\n{broker.text()[-4000:]}"
                )
        finally:
            for broker in self.cluster.brokers.values():
                if broker.is_running:
                    broker.send(signal.SIGKILL)
            self.zookeeper.stop()

    def _files(self, topic: str, partition: int) -> list[Path]:
        """Of the replica that has most: the others may be a fetch behind."""
        found = [sorted(Path(broker.data, f"{topic}-{partition}").glob("*.log")) for broker in self.cluster.brokers.values()]
        return max(found, key=lambda paths: sum(path.stat().st_size for path in paths))
