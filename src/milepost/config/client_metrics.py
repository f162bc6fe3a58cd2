"""What may be set for the metrics that clients are to send (KIP-714).

    interval.ms   how often they are sent, 100 to 3600000
    metrics       prefixes of the names of metrics
    match         which clients send them: a list of `what=pattern`, with `what` one of MATCHED

Errors have Kafka's codes: 42 INVALID_REQUEST for a property that does not exist and for an interval out of range, 40 INVALID_CONFIG for a
value that cannot be read. Patterns are not compiled: nobody collects these metrics here (`docs/omissions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from milepost.config.configuration import Configuration
from milepost.config.definition import I, Type, declare
from milepost.errors import InvalidConfiguration, InvalidRequest
from milepost.frozen_dataclass import frozen_dataclass

SHORTEST_MS, LONGEST_MS = 100, 3_600_000
MATCHED = (
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@frozen_dataclass
class ClientMetricsConfig(Configuration):
    kind: ClassVar[str] = "client metrics property"

    interval_ms: int = declare(I, 300_000, "milliseconds between two times that metrics are sent")
    metrics: tuple[str, ...] = declare(Type.LIST, (), "prefixes of the names of metrics")
    match: tuple[str, ...] = declare(Type.LIST, (), "which clients send them")

    @classmethod
    def validated(cls, given: Mapping[str, str]) -> ClientMetricsConfig:
        unknown = sorted(given.keys() - set(cls.names()))
        if unknown:
            raise InvalidRequest(f"{unknown[0][:60]!r} is no {cls.kind}: there are {', '.join(sorted(cls.names()))}")
        config = cls.parse(given)
        if not SHORTEST_MS <= config.interval_ms <= LONGEST_MS:
            raise InvalidRequest(f"interval.ms = {config.interval_ms}: give {SHORTEST_MS} to {LONGEST_MS} (1 hour)")
        for entry in config.match:
            what, equals, pattern = entry.partition("=")
            if not equals or "=" in pattern or what.strip() not in MATCHED:
                raise InvalidConfiguration(
                    f"match: {entry[:60]!r} is not of the form what=pattern, with one of {', '.join(MATCHED)}"
                )
        return config
