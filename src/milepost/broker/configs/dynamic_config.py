"""The settings of a broker that may change while it runs, and how it takes up a change.

The cluster stores them by the broker's id, and under ALL_BROKERS for all of them. A setting is taken from the first
of these places that has it:

    1  stored for this broker          DYNAMIC_BROKER
    2  stored for all brokers          DYNAMIC_DEFAULT_BROKER
    3  what the broker was started with   STATIC_BROKER
    4  the default                     DEFAULT

What may change:

    defaults of topics                           at once, for every topic that sets nothing itself. Where several broker properties
                                                 stand behind one topic property (`log.roll.ms`, `log.roll.hours`), only the first may
                                                 change, as in Kafka: it wins over the others
    log.cleaner.*                                the speed limit and the pause at once, the memory from the next log that is cleaned
    max.connections*, max.connection.*           for the next connection; none is closed
    num.io.threads                               at once, where there is a pool of handlers; by no more than half or double
    leader. and follower.replication.throttled.rate    for the next fetch of a follower
    group.consumer.assignment.interval.ms        from the next heartbeat of a member on
    producer.id.expiration.ms                    at the next look for silent producers
    transaction.partition.verification.enable    for the next batch
    num.recovery.threads.per.data.dir            at the next start

Kafka can also change `num.network.threads` and the listeners; here all sockets belong to one thread, from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from milepost.config.broker import BrokerConfig
from milepost.config.configuration import properties
from milepost.config.group import GroupConfig
from milepost.config.topic import LogConfig
from milepost.errors import InvalidArgument, InvalidRequest
from milepost.log.cleaning.cleaner_manager import memory_of
from milepost.net.connection_limits import default_limit, parse_overrides

if TYPE_CHECKING:
    from milepost.broker.internal_topics.coordinators import Coordinators
    from milepost.cluster.view import ClusterView
    from milepost.coordinator.consumer.consumer_groups import ConsumerGroups
    from milepost.log.manager import LogManager
    from milepost.net.socket_server import SocketServer

ALL_BROKERS = ""

# By half or double at a time, as in Kafka: a typing mistake should not start a thousand threads.
THREADS = ("num.io.threads", "log.cleaner.threads", "num.recovery.threads.per.data.dir")

DYNAMIC = frozenset(prop.broker[0] for prop in properties(LogConfig).values() if prop.broker) | {
    "follower.replication.throttled.rate",
    "group.consumer.assignment.interval.ms",
    "leader.replication.throttled.rate",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
    *THREADS,
}

Stored = Mapping[str, Mapping[str, str]]


class Configured(Protocol):
    """What follows the configuration of a broker."""

    @property
    def config(self) -> BrokerConfig: ...
    @property
    def server(self) -> SocketServer: ...
    @property
    def logs(self) -> LogManager: ...
    @property
    def cluster(self) -> ClusterView: ...
    @property
    def coordinators(self) -> Coordinators: ...
    @property
    def consumer_groups(self) -> ConsumerGroups: ...
    def use_config(self, config: BrokerConfig) -> None: ...


def settings_of_topics(cluster: ClusterView, config: BrokerConfig) -> dict[str, LogConfig]:
    """Parsed once for all topics that say the same: most say nothing."""
    parsed: dict[tuple[tuple[str, str], ...], LogConfig] = {}
    settings = {}
    for name, topic in cluster.topics.items():
        given = tuple(sorted(topic.configs.items()))
        if given not in parsed:
            parsed[given] = LogConfig.parse(topic.configs, config)
        settings[name] = parsed[given]
    return settings


def use_config(broker: Configured, config: BrokerConfig) -> None:
    """Go on with other settings; topics that set nothing themselves inherit them."""
    settings = settings_of_topics(broker.cluster, config)
    broker.use_config(config)
    broker.logs.topics = settings
    for name, log in broker.logs.logs.items():
        if name.topic in settings:
            log.update_config(settings[name.topic])


def in_force(static: BrokerConfig, stored: Stored, node_id: int) -> BrokerConfig:
    """The configuration a broker runs with."""
    changes = {**stored.get(ALL_BROKERS, {}), **stored.get(str(node_id), {})}
    return static.override(changes) if changes else static


def check_change(before: BrokerConfig, after: BrokerConfig) -> None:
    """What is wrong with going from one valid configuration to another."""
    for name in THREADS:
        old, new = before.get(name), after.get(name)
        assert isinstance(old, int) and isinstance(new, int)
        if new != old and not (new >= 1 and old / 2 <= new <= old * 2):
            raise InvalidRequest(f"{name}: from {old} to {new} is too much at once; between half and double, and at least 1")
    try:
        memory_of(after)
    except InvalidArgument as fault:
        raise InvalidRequest(str(fault)) from fault


def apply(broker: Configured) -> None:
    """Make the parts of a broker follow `broker.config`, at its start and after a change; logs do already (`use_config`)."""
    config, server = broker.config, broker.server
    broker.logs.cleaner.use_config(config)
    limits = server.settings.limits
    limits.total = min(default_limit(), config.max_connections)
    limits.per_address = config.max_connections_per_ip
    limits.overrides = parse_overrides(config.max_connections_per_ip_overrides)
    limits.creation_rate = config.max_connection_creation_rate
    if config.num_io_threads != server.settings.num_io_threads:
        server.settings = replace(server.settings, num_io_threads=config.num_io_threads)
        if server.settings.pooled and server.processors:
            server.resize_handlers(config.num_io_threads)
    for log in broker.logs.logs.values():
        log.producers.expiration_ms = config.producer_id_expiration_ms
    broker.coordinators.use_config()
    for name, given in broker.cluster.group_configs.items():
        broker.consumer_groups.use_config(name, GroupConfig.in_force(given, config))
