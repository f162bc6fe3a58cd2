"""Settings that the cluster keeps in ZooKeeper, taken up by this broker: those of topics, of all brokers, and its own.

What a topic has stored takes effect as a whole. Where one value of it cannot be applied here (`retention.ms=soon`), what was in force
before stays, values and given settings alike, so that DescribeConfigs shows them as they are; a warning names the value and what stays.
Whoever changes the topic's settings changes those that are stored. The same holds for brokers.

A property that only a newer Kafka knows has no effect, with a warning; the others hold.
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

BROKERS = "brokers"
LISTED = 200
"""Characters of settings in a warning."""


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
        self._faults: dict[str, list[str]] = {}
        """Of settings, by entity, as they were told last."""

    # Reading.

    def take_all(self, stored: entity_configs.Stored) -> None:
        cluster = self._broker.cluster
        cluster.take_clients(*stored.clients)
        of_brokers = {name: last_good(cluster.stored_brokers, name, configs) for name, configs in stored.brokers.items()}
        if of_brokers != cluster.stored_brokers:
            cluster.stored_brokers = of_brokers
            self._use_broker_settings()
        for name in cluster.stored_topics.keys() - stored.topics.keys():
            self.forget_topic(name)
        for name, configs in stored.topics.items():
            self._take_topic(name, last_good(cluster.stored_topics, name, configs))

    def changed(self, entity: str, configs: dict[str, str]) -> None:
        kind, _, name = entity.partition("/")
        if kind == "topics":
            self._take_topic(name, configs)
        elif kind == "brokers":
            name = ALL_BROKERS if name == entity_configs.DEFAULT else name
            self._broker.cluster.stored_brokers = {**self._broker.cluster.stored_brokers, name: configs}
            if name in (ALL_BROKERS, str(self._broker.node_id)):
                self._use_broker_settings()

    def _take_topic(self, name: str, configs: dict[str, str]) -> None:
        broker = self._broker
        broker.cluster.stored_topics[name] = configs
        given, faults = known(LogConfig, configs), strangers(LogConfig, f"topic {name}", configs)
        try:
            parsed = LogConfig.parse(given, broker.config)
        except InvalidConfiguration as fault:
            stays = listed(broker.cluster.topic_configs.get(name, {}))
            faults.append(f"topic {name}: {fault} Its stored settings are not applied; {stays}")
            return
        finally:
            self._warn(entity_configs.topic_entity(name), faults)
        broker.cluster.set_topic_config(name, given)
        broker.logs.topics[name] = parsed
        broker.replication_quotas.use_topic(name, parsed)
        for log in broker.logs.logs_of(name):
            log.update_config(parsed)

    def forget_topic(self, name: str) -> None:
        """It was deleted. Logs of it that are still here are told by the controller."""
        self._faults.pop(entity_configs.topic_entity(name), None)
        self._broker.cluster.forget_topic_config(name)
        self._broker.logs.topics.pop(name, None)
        self._broker.replication_quotas.forget_topic(name)

    def _use_broker_settings(self) -> None:
        broker, cluster = self._broker, self._broker.cluster
        given = {name: known(BrokerConfig, configs) for name, configs in cluster.stored_brokers.items()}
        faults = [
            f"a broker setting in ZooKeeper is not applied: {fault}"
            for configs in cluster.stored_brokers.values()
            for fault in unkept_promises(configs)
        ]
        for name, label in ((ALL_BROKERS, "all brokers"), (str(broker.node_id), f"broker {broker.node_id}")):
            faults += strangers(BrokerConfig, label, cluster.stored_brokers.get(name, {}))
        try:
            config = in_force(broker.static_config, given, broker.node_id)
        except InvalidConfiguration as fault:
            stays = listed({**cluster.broker_configs.get(ALL_BROKERS, {}), **cluster.broker_configs.get(str(broker.node_id), {})})
            faults.append(f"broker {broker.node_id}: {fault} The settings in ZooKeeper are not applied; {stays}")
            return
        finally:
            self._warn(BROKERS, faults)
        cluster.broker_configs = given
        broker.use_config(config)
        broker.replication_quotas.use_rates(config)
        for name, configs in cluster.stored_topics.items():
            self._take_topic(name, configs)
        apply(broker)

    def _warn(self, entity: str, faults: list[str]) -> None:
        """Each once, for as long as it is so: settings are read again with every change of them."""
        told = self._faults.pop(entity, [])
        for fault in faults:
            if fault not in told:
                logger.warning("%s", fault)
        if faults:
            self._faults[entity] = faults

    # Writing.

    def store(self, entity: str, configs: Mapping[str, str], done: Callable[[bool], object]) -> None:
        """Into ZooKeeper; every broker is notified by the change that is noted there, this one too."""

        def written(is_stored: bool) -> None:
            if is_stored:
                self.changed(entity, dict(configs))
            done(is_stored)

        self._broker.member.run(entity_configs.write(entity, configs), written, lambda: written(False))


def last_good(before: Mapping[str, dict[str, str]], name: str, configs: dict[str, str] | None) -> dict[str, str]:
    """Settings that were read, or what they were before where their node makes no sense."""
    return before.get(name, {}) if configs is None else configs


def known(kind: type[Configuration], configs: Mapping[str, str]) -> dict[str, str]:
    """Those settings that there is a property for here."""
    names = kind.names()
    return {name: value for name, value in configs.items() if name in names or name in kind.aliases}


def strangers(kind: type[Configuration], owner: str, configs: Mapping[str, str]) -> list[str]:
    """What is said of those that there is no property for; of those that promise what is not served more is said (`config/unserved`)."""
    names = configs.keys() - known(kind, configs).keys()
    told = sorted(name for name in names if not kind.is_promise(name))
    return [f"{owner}: {name!r} is no property that this broker knows; it has no effect here" for name in told]


def listed(given: Mapping[str, str]) -> str:
    """What stays in force, as the end of a sentence."""
    text = ", ".join(f"{name}={value}" for name, value in sorted(given.items()))
    return f"in force stay {text[:LISTED]}" + ("…" if len(text) > LISTED else "") if given else "no earlier ones are in force"
