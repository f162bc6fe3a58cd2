"""What may be set for one group of the consumer protocol; what is not set has the broker's value.

    property                        broker property, whose limits hold                allowed
    consumer.session.timeout.ms     group.consumer.session.timeout.ms                 group.consumer.min.session.timeout.ms to .max.
    consumer.heartbeat.interval.ms  group.consumer.heartbeat.interval.ms              group.consumer.min.heartbeat.interval.ms to .max.
    consumer.assignment.interval.ms group.consumer.assignment.interval.ms             group.consumer.min.assignment.interval.ms to .max.

The limits are for what is set for a group: the broker's own values are what its operator said (but its assignment interval is within
the limits, as in Kafka). What was set before the limits were narrowed counts as the nearest one (`in_force`). Kafka's properties of
share groups and streams groups are not here, as these groups are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from milepost.config.configuration import Configuration, properties
from milepost.config.definition import I, declare
from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

if TYPE_CHECKING:
    from milepost.config.broker import BrokerConfig


@frozen_dataclass
class GroupConfig(Configuration):
    kind: ClassVar[str] = "group property"

    consumer_session_timeout_ms: int = declare(
        I, 45_000, "a member silent for longer is removed", low=1, broker=("group.consumer.session.timeout.ms",)
    )
    consumer_heartbeat_interval_ms: int = declare(
        I, 5000, "time between two heartbeats of a member", low=1, broker=("group.consumer.heartbeat.interval.ms",)
    )
    consumer_assignment_interval_ms: int = declare(
        I, 1000, "least time between two assignments; 0: at once", low=0, broker=("group.consumer.assignment.interval.ms",)
    )

    @classmethod
    def parse(cls, given: Mapping[str, object] | None = None, broker: BrokerConfig | None = None) -> GroupConfig:
        """What is given by Kafka's names, within the broker's limits, over what the broker's properties say."""
        own = cls.fields_of(given or {})
        if broker is not None:
            for field_name, (low, high) in limits_of(broker).items():
                if field_name in own and not low <= own[field_name] <= high:
                    name = properties(cls)[field_name].name
                    raise InvalidConfiguration(
                        f"{name} = {own[field_name]}: this broker allows {low} to {high} (group.{limit_names(name)})."
                    )
        config = cls(**{**(inherited_from(broker) if broker is not None else {}), **own})
        if config.consumer_heartbeat_interval_ms >= config.consumer_session_timeout_ms:
            raise InvalidConfiguration(
                f"consumer.heartbeat.interval.ms = {config.consumer_heartbeat_interval_ms} is not below "
                f"consumer.session.timeout.ms = {config.consumer_session_timeout_ms}: lower the first or raise the second."
            )
        return config

    @classmethod
    def in_force(cls, stored: Mapping[str, object], broker: BrokerConfig) -> GroupConfig:
        """What was set once, under other limits perhaps: what is beyond one of today's counts as that limit, as in Kafka."""
        own = cls.fields_of(stored)
        for field_name, (low, high) in limits_of(broker).items():
            if field_name in own:
                own[field_name] = max(low, min(own[field_name], high))
        return cls(**{**inherited_from(broker), **own})


def inherited_from(broker: BrokerConfig) -> dict[str, int]:
    """Field names and values of a group that sets nothing."""
    return {
        "consumer_session_timeout_ms": broker.group_consumer_session_timeout_ms,
        "consumer_heartbeat_interval_ms": broker.group_consumer_heartbeat_interval_ms,
        "consumer_assignment_interval_ms": broker.group_consumer_assignment_interval_ms,
    }


def limits_of(broker: BrokerConfig) -> dict[str, tuple[int, int]]:
    """Field name → the least and the most that may be set for a group."""
    return {
        "consumer_session_timeout_ms": (
            broker.group_consumer_min_session_timeout_ms,
            broker.group_consumer_max_session_timeout_ms,
        ),
        "consumer_heartbeat_interval_ms": (
            broker.group_consumer_min_heartbeat_interval_ms,
            broker.group_consumer_max_heartbeat_interval_ms,
        ),
        "consumer_assignment_interval_ms": (
            broker.group_consumer_min_assignment_interval_ms,
            broker.group_consumer_max_assignment_interval_ms,
        ),
    }


def limit_names(name: str) -> str:
    """consumer.session.timeout.ms → consumer.min.session.timeout.ms and .max."""
    kind, _, rest = name.partition(".")
    return f"{kind}.min.{rest} and .max."
