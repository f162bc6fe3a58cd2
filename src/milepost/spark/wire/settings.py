"""How a query talks to brokers: the `kafka.` options that matter here, as plain values for driver and tasks.

    kafka.client.id                   name in the broker's logs                         milepost-spark
    kafka.request.timeout.ms          longest wait for an answer                        30000
    kafka.fetch.max.bytes             of one answer                                     8 MiB
    kafka.max.partition.fetch.bytes   the same, and the smaller of the two counts       8 MiB

    kafka.security.protocol, .sasl.*, .ssl.*    as for every client (`client/security`); files that they name have to be where tasks run

Other consumer settings change nothing about which rows come, and are left aside.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from milepost.client.cluster import Cluster
from milepost.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from milepost.client.retrying import Retries
from milepost.client.security import NO_SECURITY, PREFIXES, SecuritySettings
from milepost.errors import InvalidArgument
from milepost.spark.options import SourceOptions

logger = logging.getLogger("milepost.spark")

FETCH_BYTES = 8 << 20
USED = ("client.id", "request.timeout.ms", "fetch.max.bytes", "max.partition.fetch.bytes", "isolation.level")


@dataclass(frozen=True, slots=True)
class WireSettings:
    bootstrap_servers: str
    client_id: str = "milepost-spark"
    timeout: float = 30.0
    fetch_bytes: int = FETCH_BYTES
    poll_seconds: float = 120.0
    read_committed: bool = False
    fail_on_data_loss: bool = True
    security: SecuritySettings = NO_SECURITY

    @classmethod
    def of(cls, options: SourceOptions) -> WireSettings:
        kafka = options.kafka
        for name in sorted(kafka.keys() - set(USED)):
            if not name.startswith(PREFIXES):
                logger.info("kafka.%s has no effect on what is read", name)
        assert options.bootstrap_servers is not None
        fetch_bytes = min(_bytes(kafka, "fetch.max.bytes"), _bytes(kafka, "max.partition.fetch.bytes"))
        return cls(
            options.bootstrap_servers,
            kafka.get("client.id", "milepost-spark"),
            _number(kafka, "request.timeout.ms", 30_000) / 1000,
            fetch_bytes,
            options.poll_timeout_ms / 1000,
            options.read_committed,
            options.fail_on_data_loss,
            SecuritySettings.of(kafka),
        )

    @property
    def isolation(self) -> int:
        return READ_COMMITTED if self.read_committed else READ_UNCOMMITTED

    def connect(self) -> Cluster:
        return Cluster(
            self.bootstrap_servers,
            client_id=self.client_id,
            timeout=self.timeout,
            retries=Retries(timeout=self.poll_seconds),
            security=self.security.security(),
        )


def _bytes(kafka: Mapping[str, str], name: str) -> int:
    return max(1, _number(kafka, name, FETCH_BYTES))


def _number(kafka: Mapping[str, str], name: str, default: int) -> int:
    text = kafka.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"kafka.{name} is {text!r}; a number is expected") from None
