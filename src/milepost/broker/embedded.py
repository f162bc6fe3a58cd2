"""`milepost.Broker`: a broker inside a program, on a thread of its own.

    with milepost.Broker() as broker:
        client = Client(bootstrap_servers=broker.bootstrap_servers)

Without arguments it listens on a free port of 127.0.0.1, over a temporary directory that goes away with it. What was stopped by `stop`
and is started again has its port and its data; the end of a `with` statement gives both up. Any number of them may run in one process.
Whatever keeps it from starting is raised by `start`, whatever ended it while it ran is raised by `stop`: both in the thread that called
them.

It is there for the clients of one program, so four settings are smaller than Kafka's unless they are given (`QUICK`): a group does
not wait for more members before its first rebalance, nor, with the consumer protocol, between two assignments, and the internal topics
have one partition each. All others have Kafka's defaults; the environment and files are not asked.

A forked child has the sockets and the files, but not the thread. It may use the address as any client may; `stop` does nothing
there, and the directory stays its parent's.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from milepost.broker.broker import Broker
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.config.broker import BrokerConfig
from milepost.errors import InvalidArgument
from milepost.files.temporary import TemporaryDirectory

if TYPE_CHECKING:
    from milepost.client.cluster import Cluster

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
PLACES = ("log.dir", "log.dirs")


class EmbeddedBroker:
    def __init__(
        self,
        data: str | os.PathLike[str] | None = None,
        *,
        port: int | None = None,
        config: Mapping[str, object] | None = None,
    ):
        """`data`: the data directory; `port`: on 127.0.0.1, 0 for a free one; `config`: broker properties by Kafka's names."""
        given = dict(config or {})
        if "listeners" in given and port is not None:
            raise InvalidArgument("port and the property listeners: give one of them")
        if data is not None and any(name in given for name in PLACES):
            raise InvalidArgument("data and the property log.dirs: give one of them")
        given.setdefault("listeners", f"PLAINTEXT://127.0.0.1:{port or 0}")
        if data is not None:
            given["log.dirs"] = os.fspath(data)
        self._is_temporary = not any(name in given for name in PLACES)
        self._config = BrokerConfig.parse({**QUICK, **given})
        self._temporary: TemporaryDirectory | None = None
        self._bound: dict[str, str] = {}
        """The properties that say where it listened the last time."""
        self._life: Life[AloneBroker] | None = None
        self._owner = -1

    def start(self) -> EmbeddedBroker:
        """Load, listen, and serve on a thread of its own. It is ready for clients when this returns."""
        if self._life is not None:
            raise InvalidArgument(f"the broker at {self.bootstrap_servers} runs already")
        config = self._config
        is_first = not self._bound
        if self._is_temporary:
            self._temporary = self._temporary or TemporaryDirectory("milepost-")
            config = config.override({"log.dirs": self._temporary.path})
        config = config.override(self._bound)
        try:
            life = Life(AloneBroker(config))
            broker = life.__enter__()
        except BaseException:
            if is_first:
                self._forget()
            raise
        self._life, self._owner = life, os.getpid()
        listeners = (f"{each.listener}://{_url(*each.address)}" for each in broker.server.all_acceptors)
        self._bound = {"listeners": ",".join(listeners)}
        if broker.metrics_endpoint is not None:
            self._bound["milepost.metrics.port"] = str(broker.metrics_endpoint.port)
        # A program that ends without a word still leaves its directory as after a clean stop.
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Answer what was asked, close everything, leave the directory as after a clean stop. Again: nothing.

        A temporary directory goes with this object, or at the end of the program.
        """
        life, self._life = self._life, None
        if life is None or os.getpid() != self._owner:
            return
        atexit.unregister(self.stop)
        life.__exit__(None, None, None)

    def _forget(self) -> None:
        """The next start is a first one."""
        self._bound, temporary, self._temporary = {}, self._temporary, None
        if temporary is not None:
            temporary.remove()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            self._forget()

    def __repr__(self) -> str:
        return f"<milepost.Broker {self.bootstrap_servers if self.is_running else 'stopped'}>"

    # What a client needs to know.

    @property
    def is_running(self) -> bool:
        return self._life is not None

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT`, for the property of this name that every client has."""
        return self._running.bootstrap_servers

    @property
    def host(self) -> str:
        return self.bootstrap_servers.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def data(self) -> str:
        """The data directory; the first, if there are several."""
        return self._running.config.directories[0]

    @property
    def _running(self) -> Broker:
        if self._life is None:
            raise InvalidArgument("the broker does not run: call start(), or use it in a with statement")
        return self._life.broker

    # Topics, without another client.

    def create_topic(self, name: str, partitions: int | None = None, config: Mapping[str, object] | None = None) -> None:
        """A new topic, as an admin client would make it: settings by Kafka's names."""
        from milepost.client.admin import create_topic

        configs = {key: value if isinstance(value, str) else str(value).lower() for key, value in (config or {}).items()}
        with self._cluster() as cluster:
            create_topic(cluster, name, partitions=partitions, configs=configs)

    def delete_topic(self, name: str) -> None:
        from milepost.client.admin import delete_topics

        with self._cluster() as cluster:
            delete_topics(cluster, [name])

    def _cluster(self) -> Cluster:
        """A client of this broker, which is up: what it answers is no better a second time."""
        from milepost.client.cluster import Cluster
        from milepost.client.retrying import Retries

        return Cluster(self.bootstrap_servers, retries=Retries(attempts=1))


def _url(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
