"""Settings of topics and brokers that a client changes in a cluster: checked here, stored in ZooKeeper, heard of by everybody.

Any broker may do it for a topic or for all brokers; a broker's own settings are changed at that broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from milepost.broker.config_resources import BrokerSettings, Settings, TopicSettings, canonical
from milepost.cluster.settings import broker_entity, topic_entity
from milepost.errors import BrokerUnavailable, InvalidRequest, MilepostError

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker

Done = Callable[[MilepostError | None], object]


def change(settings: Settings, given: Mapping[str, str], validate_only: bool, broker: ClusteredBroker, done: Done) -> None:
    """Put `given` in the place of all that is stored, if it is valid. Raises what is wrong with it."""
    entity = entity_of(settings)
    settings.check(given)
    if validate_only:
        done(None)
        return

    def stored(is_stored: bool) -> None:
        done(None if is_stored else BrokerUnavailable("ZooKeeper did not take the settings; nothing was changed"))

    broker.settings.store(entity, canonical(settings.properties, given), stored)


def entity_of(settings: Settings) -> str:
    if isinstance(settings, TopicSettings):
        return topic_entity(settings.name)
    if isinstance(settings, BrokerSettings):
        return broker_entity(settings.name)
    raise InvalidRequest("a cluster with ZooKeeper keeps no settings of groups: set the brokers' group.consumer properties")
