"""Settings and quotas that a client changes at a broker that is alone: written down beside its logs.

Settings of topics and of groups are written down together, those of brokers each at once: what they are checked against is what they
change. A group may be set before it exists, as in Kafka. Settings of MOST_GROUPS are kept, whether these groups exist or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from milepost.broker.configs.client_quotas import with_changes
from milepost.broker.configs.config_resources import BrokerSettings, GroupSettings, Settings, TopicSettings, canonical
from milepost.broker.configs.dynamic_config import apply, use_config
from milepost.config.group import GroupConfig
from milepost.errors import MilepostError, PolicyViolation
from milepost.security.scram import as_text

if TYPE_CHECKING:
    from milepost.broker.configs.client_quotas import Entity
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work
    from milepost.broker.topology.alone_topics import AloneTopics
    from milepost.broker.topology.protocols import Failures
    from milepost.cluster.change_log import Change
    from milepost.cluster.solo import SoloCluster
    from milepost.security.scram import ScramCredential

MOST_GROUPS = 10_000

Failed = Callable[[MilepostError], object]


class AloneConfigs:
    """No other broker could have changed them."""

    def __init__(self, parts: Parts, cluster: SoloCluster, topics: AloneTopics):
        self._parts = parts
        self._cluster = cluster
        self._topics = topics

    def refreshing(self, resources: Sequence[Any]) -> Work[bool]:
        yield from ()
        return True

    def changes(self) -> AloneChanges:
        return AloneChanges(self._parts, self._cluster, self._topics)


class AloneChanges:
    def __init__(self, parts: Parts, cluster: SoloCluster, topics: AloneTopics):
        self._parts = parts
        self._cluster = cluster
        self._changes = topics
        self._topics: dict[str, tuple[dict[str, str], Failed]] = {}
        self._groups: dict[str, tuple[dict[str, str], Failed]] = {}

    def ensure_stored(self, settings: Settings) -> None:
        """All are."""

    def add(self, settings: Settings, given: dict[str, str], failed: Failed) -> None:
        spelled = canonical(settings.properties, given)
        if spelled == settings.given:
            return
        if isinstance(settings, BrokerSettings):
            self._store(settings, spelled)
        elif isinstance(settings, TopicSettings):
            self._topics[settings.name] = spelled, failed
        elif isinstance(settings, GroupSettings):
            self._ensure_room(settings)
            self._groups[settings.name] = spelled, failed

    def _store(self, settings: BrokerSettings, given: dict[str, str]) -> None:
        config = settings.config_with(given)
        self._cluster.save([{"broker": settings.name, "to": given}])
        use_config(self._parts, config)
        apply(self._parts)

    def _ensure_room(self, group: GroupSettings) -> None:
        known = self._cluster.group_configs
        if group.name not in known and len(known) + len(self._groups) >= MOST_GROUPS:
            raise PolicyViolation(
                f"settings of {MOST_GROUPS} groups are kept, and there are as many; delete those of another group first"
            )

    def making(self) -> Work[None]:
        parts, changes = self._parts, self._changes
        tell(self._topics, (yield from changes.setting({name: given for name, (given, _) in self._topics.items()})))
        failures = yield from changes.saving({name: {"group": name, "to": given} for name, (given, _) in self._groups.items()})
        tell(self._groups, failures)
        for name in self._groups.keys() - failures.keys():
            given = self._groups[name][0]
            parts.consumer_groups.use_config(name, GroupConfig.in_force(given, parts.config) if given else None)
            yield


def tell(wanted: Mapping[str, tuple[dict[str, str], Failed]], failures: Failures) -> None:
    for name, failure in failures.items():
        wanted[name][1](failure)


class AloneQuotas:
    def __init__(self, cluster: SoloCluster, topics: AloneTopics):
        self._cluster = cluster
        self._changes = topics

    def refreshing(self) -> Work[None]:
        """No other broker could have changed them."""
        yield from ()

    def altering(self, wanted: Mapping[str, tuple[Entity, dict[str, float | None]]]) -> Work[Failures]:
        changes: dict[str, Change] = {}
        for key, (entity, changed) in wanted.items():
            before = self._cluster.quotas_of(entity)
            after = with_changes(before, changed)
            if after != before:
                changes[key] = {"quotas": entity, "to": after}
            yield
        return (yield from self._changes.saving(changes))


class AloneScramUsers:
    def __init__(self, cluster: SoloCluster, topics: AloneTopics):
        self._cluster = cluster
        self._changes = topics

    def refreshing(self) -> Work[None]:
        """No other broker could have changed them."""
        yield from ()

    def altering(self, wanted: Mapping[str, Mapping[str, ScramCredential | None]]) -> Work[Failures]:
        changes: dict[str, Change] = {}
        for user, credentials in wanted.items():
            after = {**self._cluster.scram_users.get(user, {}), **credentials}
            changes[user] = {"user": user, "to": {name: as_text(known) for name, known in after.items() if known is not None}}
            yield
        return (yield from self._changes.saving(changes))
