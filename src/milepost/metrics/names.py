"""A metric's name: Kafka's own, and the two spellings that dashboards for Prometheus use.

Kafka names a metric by three words, `kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec`. Two exporters of them are in
wide use, and each made its own rules:

                                strimzi                             confluent
    words                       joined with _, lower case           the same
    a count, `…PerSec`          `…_total` in place of `PerSec`      kept
    a count, `…total`           kept                                kept
    a share, `…Percent`         `…_percent`                         kept
    count of a summary          `…_count`                           the name itself, without a quantile
    type `socket-server-…`      `socket_server_…`                   `socketserver…`
    label names                 as Kafka's                          lower case
    types in the text           all                                 of gauges only

A few metrics are spelled against these rules; they are listed in `IRREGULAR`. Where two spellings are both in use under one
dialect, a metric has both (`ALIASES`).
"""

from __future__ import annotations

import enum

from milepost.frozen_dataclass import frozen_dataclass


class Kind(enum.Enum):
    """What a metric is; the values are the words of the text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


class Dialect(enum.Enum):
    STRIMZI = "strimzi"
    CONFLUENT = "confluent"


@frozen_dataclass
class MetricName:
    """`domain` is `kafka.server` and the like; a metric of our own has `milepost` and an empty type, and one spelling."""

    domain: str
    type: str
    name: str

    def spelled(self, dialect: Dialect, kind: Kind) -> str:
        irregular = IRREGULAR.get((dialect, self.name))
        if irregular is not None:
            return irregular
        if not self.type:
            return f"{self.domain}_{self.name}"
        domain = self.domain.replace(".", "_")
        if dialect is Dialect.CONFLUENT:
            return f"{domain}_{self.type.replace('-', '')}_{self.name.replace('-', '_')}".lower()
        name = self.name
        if kind is Kind.COUNTER and name[-5:].lower() != "total":
            name = f"{name.removesuffix('PerSec')}_total"
        elif name.endswith("Percent"):
            name = f"{name.removesuffix('Percent')}_percent"
        return f"{domain}_{self.type}_{name}".replace("-", "_").lower()

    def spellings(self, dialect: Dialect, kind: Kind) -> tuple[str, ...]:
        return (self.spelled(dialect, kind), *ALIASES.get((dialect, self.name), ()))


IRREGULAR = {
    # This exporter takes the one-minute rate of a meter of idle time, and says "total" nevertheless.
    (
        Dialect.CONFLUENT,
        "RequestHandlerAvgIdlePercent",
    ): "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total",
}


ALIASES = {
    # The example of the JMX exporter keeps the word, Strimzi's rules split it off.
    (Dialect.STRIMZI, "NetworkProcessorAvgIdlePercent"): ("kafka_network_socketserver_networkprocessoravgidlepercent",),
}


def own(name: str) -> MetricName:
    """A metric that Kafka does not have."""
    return MetricName("milepost", "", name)
