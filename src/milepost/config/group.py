"""What may be set for one group of the consumer protocol; what is not set has the broker's value.

    property                        broker property, whose limits hold                allowed
    consumer.session.timeout.ms     group.consumer.session.timeout.ms                 group.consumer.min.session.timeout.ms to .max.
    consumer.heartbeat.interval.ms  group.consumer.heartbeat.interval.ms              group.consumer.min.heartbeat.interval.ms to .max.

The limits are for what is set for a group: the broker's own values are what its operator said. Kafka's properties of share groups and
streams groups are not here, as these groups are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from milepost.config.configuration import Configuration
from milepost.config.definition import I, declare
from milepost.errors import InvalidConfiguration
from milepost.frozen import frozen

if TYPE_CHECKING:
    from milepost.config.broker import BrokerConfig


@frozen
class GroupConfig(Configuration):
    kind: ClassVar[str] = "group property"

    consumer_session_timeout_ms: int = declare(
        I, 45_000, "a member silent for longer is removed", low=1, broker=("group.consumer.session.timeout.ms",)
    )
    consumer_heartbeat_interval_ms: int = declare(
        I, 5000, "time between two heartbeats of a member", low=1, broker=("group.consumer.heartbeat.interval.ms",)
    )

    @classmethod
    def parse(cls, given: Mapping[str, object] | None = None, broker: BrokerConfig | None = None) -> GroupConfig:
        """What is given by Kafka's names, within the broker's limits, over what the broker's properties say."""
        if broker is None:
            return cls(**cls.fields_of(given or {}))
        inherited = {
            "consumer.session.timeout.ms": broker.group_consumer_session_timeout_ms,
            "consumer.heartbeat.interval.ms": broker.group_consumer_heartbeat_interval_ms,
        }
        config = cls(**{**cls.fields_of(inherited), **cls.fields_of(given or {})})
        limits = {
            "consumer.session.timeout.ms": (
                broker.group_consumer_min_session_timeout_ms,
                broker.group_consumer_max_session_timeout_ms,
            ),
            "consumer.heartbeat.interval.ms": (
                broker.group_consumer_min_heartbeat_interval_ms,
                broker.group_consumer_max_heartbeat_interval_ms,
            ),
        }
        for name in given or {}:
            low, high = limits[name]
            value = config.get(name)
            if not isinstance(value, int) or not low <= value <= high:
                raise InvalidConfiguration(f"{name} = {value}: this broker allows {low} to {high} (group.{limit_names(name)}).")
        return config

    def check(self) -> None:
        if self.consumer_heartbeat_interval_ms >= self.consumer_session_timeout_ms:
            raise InvalidConfiguration(
                f"consumer.heartbeat.interval.ms = {self.consumer_heartbeat_interval_ms} is not below "
                f"consumer.session.timeout.ms = {self.consumer_session_timeout_ms}: lower the first or raise the second."
            )


def limit_names(name: str) -> str:
    """consumer.session.timeout.ms → consumer.min.session.timeout.ms and .max."""
    kind, _, rest = name.partition(".")
    return f"{kind}.min.{rest} and .max."
