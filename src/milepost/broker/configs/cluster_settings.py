"""Settings that the cluster keeps in ZooKeeper, taken up by this broker: those of topics, of all brokers, and its own.

What does not parse is left out with a warning and what was last good stays, as it would for a property that only a newer Kafka knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from milepost.broker.configs.dynamic_config import ALL_BROKERS, Configured, apply, in_force
from milepost.cluster.zookeeper import entity_configs
from milepost.config.broker import BrokerConfig
from milepost.config.configuration import Configuration
from milepost.config.topic import LogConfig
from milepost.config.unserved import unkept_promises
from milepost.errors import InvalidConfiguration

if TYPE_CHECKING:
    from milepost.cluster.controller_metadata import ControllerMetadata
    from milepost.cluster.member import ClusterMember
    from milepost.replica.replication_quota import ReplicationQuotas

logger = logging.getLogger("milepost.broker")


class ConfiguredInCluster(Configured, Protocol):
    @property
    def static_config(self) -> BrokerConfig: ...
    @property
    def node_id(self) -> int: ...
    @property
    def cluster(self) -> ControllerMetadata: ...
    @property
    def member(self) -> ClusterMember: ...
    @property
    def replication_quotas(self) -> ReplicationQuotas: ...


class ClusterSettings:
    def __init__(self, broker: ConfiguredInCluster):
        self._broker = broker

    # Reading.

    def take_all(self, stored: entity_configs.Stored) -> None:
        cluster = self._broker.cluster
        cluster.client_quotas = stored.quotas
        if stored.brokers != cluster.broker_configs:
            cluster.broker_configs = stored.brokers
            self._use_broker_settings()
        for name, configs in stored.topics.items():
            self._take_topic(name, configs)

    def changed(self, entity: str, configs: dict[str, str]) -> None:
        kind, _, name = entity.partition("/")
        if kind == "topics":
            self._take_topic(name, configs)
        elif kind == "brokers":
            name = ALL_BROKERS if name == entity_configs.DEFAULT else name
            self._broker.cluster.broker_configs = {**self._broker.cluster.broker_configs, name: configs}
            if name in (ALL_BROKERS, str(self._broker.node_id)):
                self._use_broker_settings()

    def _take_topic(self, name: str, configs: dict[str, str]) -> None:
        broker = self._broker
        broker.cluster.set_topic_config(name, configs)
        try:
            parsed = LogConfig.parse(known(LogConfig, configs), broker.config)
        except InvalidConfiguration as fault:
            logger.warning("settings of topic %s are not applied: %s", name, fault)
            return
        broker.logs.topics[name] = parsed
        broker.replication_quotas.use_topic(name, parsed)
        for log in [log for partition, log in broker.logs.logs.items() if partition.topic == name]:
            log.update_config(parsed)

    def _use_broker_settings(self) -> None:
        broker = self._broker
        stored = {name: known(BrokerConfig, configs) for name, configs in broker.cluster.broker_configs.items()}
        for fault in (fault for configs in broker.cluster.broker_configs.values() for fault in unkept_promises(configs)):
            logger.warning("a broker setting in ZooKeeper is not applied: %s", fault)
        try:
            config = in_force(broker.static_config, stored, broker.node_id)
        except InvalidConfiguration as fault:
            logger.warning("broker settings in ZooKeeper are not applied: %s", fault)
            return
        broker.use_config(config)
        broker.replication_quotas.use_rates(config)
        for name, configs in broker.cluster.topic_configs.items():
            self._take_topic(name, configs)
        apply(broker)

    # Writing.

    def store(self, entity: str, configs: Mapping[str, str], done: Callable[[bool], object]) -> None:
        """Into ZooKeeper; every broker is notified by the change that is noted there, this one too."""

        def written(is_stored: bool) -> None:
            if is_stored:
                self.changed(entity, dict(configs))
            done(is_stored)

        self._broker.member.run(entity_configs.write(entity, configs), written, lambda: written(False))


def known(kind: type[Configuration], configs: Mapping[str, str]) -> dict[str, str]:
    """Those settings that there is a property for here."""
    names = kind.names()
    return {name: value for name, value in configs.items() if name in names or name in kind.aliases}
