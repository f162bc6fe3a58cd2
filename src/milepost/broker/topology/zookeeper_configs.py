"""Settings and quotas that a client changes in a cluster: stored in ZooKeeper, every broker is notified.

Any broker may do it for a topic or for all brokers; a broker's own settings are changed at that broker. Whoever adds to what is stored
reads it first: another broker may have changed it a moment ago.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost.broker.configs.client_quotas import WHOLE
from milepost.broker.configs.config_resources import BROKER, TOPIC, BrokerSettings, Settings, TopicSettings, canonical
from milepost.broker.slices import Work, called_back, gathered
from milepost.broker.topic_errors import TopicNotChanged
from milepost.cluster.zookeeper import entity_configs as stored_settings
from milepost.cluster.zookeeper.entity_configs import ALL_BROKERS, broker_entity, topic_entity
from milepost.errors import BrokerUnavailable, InvalidRequest, MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.security.scram import as_text

if TYPE_CHECKING:
    from milepost.broker.configs.client_quotas import Entity
    from milepost.broker.configs.cluster_settings import ClusterSettings
    from milepost.broker.topology.protocols import Failures
    from milepost.cluster.controller_metadata import ControllerMetadata
    from milepost.cluster.member import ClusterMember
    from milepost.cluster.zookeeper.session import Steps
    from milepost.security.scram import ScramCredential

Failed = Callable[[MilepostError], object]
IsStored = Callable[[bool], object]


class ZooKeeperConfigs:
    def __init__(self, member: ClusterMember, cluster: ControllerMetadata, settings: ClusterSettings):
        self._member = member
        self._cluster = cluster
        self._settings = settings

    def refreshing(self, resources: Sequence[Any]) -> Work[bool]:
        entities: dict[str, None] = {}
        for each in resources:
            if each.resource_type == TOPIC and each.resource_name in self._cluster.topics:
                entities[topic_entity(each.resource_name)] = None
            elif each.resource_type == BROKER:
                entities.update(dict.fromkeys((broker_entity(ALL_BROKERS), broker_entity(str(self._cluster.node_id)))))
            yield
        named = list(entities)

        def refresh(done: Callable[[bool], None]) -> None:
            self._member.with_fresh_settings(named, partial(done, True), partial(done, False))

        return (yield from called_back(refresh))

    def changes(self) -> ZooKeeperChanges:
        return ZooKeeperChanges(self._settings)


class ZooKeeperChanges:
    def __init__(self, settings: ClusterSettings):
        self._settings = settings
        self._begun: list[tuple[Callable[[IsStored], object], Failed]] = []

    def ensure_stored(self, settings: Settings) -> None:
        entity_of(settings)

    def add(self, settings: Settings, given: dict[str, str], failed: Failed) -> None:
        store = partial(self._settings.store, entity_of(settings), canonical(settings.properties, given))
        self._begun.append((store, failed))

    def making(self) -> Work[None]:
        outcomes = yield from gathered([store for store, _ in self._begun])
        for (_, failed), is_stored in zip(self._begun, outcomes, strict=True):
            if not is_stored:
                failed(BrokerUnavailable("ZooKeeper did not confirm the change, which may be stored all the same; send it again"))


def entity_of(settings: Settings) -> str:
    if isinstance(settings, TopicSettings):
        return topic_entity(settings.name)
    if isinstance(settings, BrokerSettings):
        return broker_entity(settings.name)
    raise InvalidRequest("a cluster with ZooKeeper keeps no settings of groups: set the brokers' group.consumer properties")


class ZooKeeperQuotas:
    """Each entity's are in one node. It is read first: what else Kafka keeps there (passwords of users) stays."""

    def __init__(self, member: ClusterMember):
        self._member = member

    def refreshing(self) -> Work[None]:
        yield self._member.with_fresh_clients

    def altering(self, wanted: Mapping[str, tuple[Entity, dict[str, float | None]]]) -> Work[Failures]:
        return (yield from storing(self._member, {key: (entity, texts(changes)) for key, (entity, changes) in wanted.items()}))


class ZooKeeperScramUsers:
    """In the same nodes, where Kafka keeps them."""

    def __init__(self, member: ClusterMember):
        self._member = member

    def refreshing(self) -> Work[None]:
        yield self._member.with_fresh_clients

    def altering(self, wanted: Mapping[str, Mapping[str, ScramCredential | None]]) -> Work[Failures]:
        changes: dict[str, tuple[Entity, Changed]] = {
            user: ({"user": user}, {name: None if known is None else as_text(known) for name, known in credentials.items()})
            for user, credentials in wanted.items()
        }
        failures = yield from storing(self._member, changes)
        yield self._member.with_fresh_clients
        return failures


Changed = Mapping[str, "str | None"]
"""Settings of an entity, None to take one away."""


def texts(changes: Mapping[str, float | None]) -> Changed:
    return {
        key: None if value is None else str(int(value) if key in WHOLE else float(value)) for key, value in changes.items()
    }


def storing(member: ClusterMember, wanted: Mapping[str, tuple[Entity, Changed]]) -> Work[Failures]:
    outcomes = yield from gathered([partial(store, member, entity, changes) for entity, changes in wanted.values()])
    refused = (key for key, is_stored in zip(wanted, outcomes, strict=True) if not is_stored)
    return {key: TopicNotChanged(ErrorCode.UNKNOWN_SERVER_ERROR) for key in refused}


def store(member: ClusterMember, entity: Entity, changes: Changed, done: IsStored) -> None:
    path = stored_settings.quota_path(entity)

    def change() -> Steps[bool]:
        configs = (yield from stored_settings.read([path])).get(path)
        if configs is None:
            return False  # a node that makes no sense: what else is in it would be lost
        for key, value in changes.items():
            if value is None:
                configs.pop(key, None)
            else:
                configs[key] = value
        return (yield from stored_settings.write(path, configs))

    member.run(change(), done, lambda: done(False))
