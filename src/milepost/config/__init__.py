"""Kafka's properties: names, types, defaults, validation, and where a value came from."""

from milepost.config.broker import BrokerConfig as BrokerConfig
from milepost.config.topic import LogConfig as LogConfig
