"""The settings of a broker that may change while it runs: those that topics inherit.

The cluster stores them by the broker's id, and under ALL_BROKERS for all of them. A setting is taken from the first
of these places that has it:

    1  stored for this broker          DYNAMIC_BROKER
    2  stored for all brokers          DYNAMIC_DEFAULT_BROKER
    3  what the broker was started with   STATIC_BROKER
    4  the default                     DEFAULT

Where several broker properties stand behind one topic property (`log.roll.ms`, `log.roll.hours`), only the first may
change, as in Kafka: it wins over the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from milepost.config.broker import BrokerConfig
from milepost.config.configuration import properties
from milepost.config.topic import LogConfig

ALL_BROKERS = ""

DYNAMIC = frozenset(prop.broker[0] for prop in properties(LogConfig).values() if prop.broker)

Stored = Mapping[str, Mapping[str, str]]


def in_force(static: BrokerConfig, stored: Stored, node_id: int) -> BrokerConfig:
    """The configuration a broker runs with."""
    changes = {**stored.get(ALL_BROKERS, {}), **stored.get(str(node_id), {})}
    return static.override(changes) if changes else static
