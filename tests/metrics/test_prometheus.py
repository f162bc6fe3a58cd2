"""The text that Prometheus reads, written out and read back by its own parser."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from milepost.metrics.histogram import Histogram
from milepost.metrics.names import Dialect, Kind, MetricName
from milepost.metrics.prometheus import LINES_AT_ONCE, pieces
from milepost.metrics.registry import Registry

BYTES_IN = MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec")
TOTAL_TIME = MetricName("kafka.network", "RequestMetrics", "TotalTimeMs")


def text(registry: Registry, dialect: Dialect = Dialect.STRIMZI) -> str:
    return "".join(pieces(registry, dialect))


def test_counter_with_and_without_labels():
    registry = Registry()
    registry.add(BYTES_IN, Kind.COUNTER, "Bytes that were appended", lambda: [((), 12), ((("topic", "a"),), 5)])
    assert text(registry).splitlines() == [
        "# HELP kafka_server_brokertopicmetrics_bytesin_total Bytes that were appended",
        "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter",
        "kafka_server_brokertopicmetrics_bytesin_total 12",
        'kafka_server_brokertopicmetrics_bytesin_total{topic="a"} 5',
    ]
    assert text(registry).endswith("\n")


def test_summary_has_kafkas_quantiles_a_sum_and_a_count():
    histogram, registry = Histogram(), Registry()
    histogram.add_all([0.5], [4])
    registry.add(TOTAL_TIME, Kind.SUMMARY, "Time", lambda: [((("request", "Produce"),), histogram)])
    name = "kafka_network_requestmetrics_totaltimems"
    assert text(registry).splitlines()[1:] == [
        f"# TYPE {name} summary",
        *[
            f'{name}{{request="Produce",quantile="{quantile}"}} 0.5'
            for quantile in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999", "1")
        ],
        f'{name}_sum{{request="Produce"}} 2.0',
        f'{name}_count{{request="Produce"}} 4',
    ]


def test_in_the_other_dialect_the_count_has_the_name_itself_and_labels_are_lower_case():
    histogram, registry = Histogram(), Registry()
    histogram.add_all([0.5], [4])
    registry.add(TOTAL_TIME, Kind.SUMMARY, "Time", lambda: [((("networkProcessor", "1"),), histogram)])
    lines = text(registry, Dialect.CONFLUENT).splitlines()
    assert lines[1] == "# TYPE kafka_network_requestmetrics_totaltimems untyped"
    assert lines[2] == 'kafka_network_requestmetrics_totaltimems{networkprocessor="1",quantile="0.50"} 0.5'
    assert lines[-1] == 'kafka_network_requestmetrics_totaltimems{networkprocessor="1"} 4'


def test_metric_without_a_value_is_left_out():
    registry = Registry()
    registry.add(BYTES_IN, Kind.COUNTER, "Bytes", list)
    assert text(registry) == ""


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, "3"),
        (2**63, "9223372036854775808"),
        (0.25, "0.25"),
        (True, "1"),
        (False, "0"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_number_is_written_as_prometheus_reads_it(value, written):
    registry = Registry()
    registry.gauge(BYTES_IN, "Bytes", lambda: value)
    assert text(registry).splitlines()[-1] == f"kafka_server_brokertopicmetrics_bytesinpersec {written}"


@pytest.mark.parametrize("dialect", list(Dialect))
def test_parser_reads_back_what_was_written(dialect):
    histogram, registry = Histogram(scale=1000.0), Registry()
    histogram.add(0.002)
    odd = 'back\\slash, "quotes"\nand a line'
    registry.add(BYTES_IN, Kind.COUNTER, f"Help with {odd}", lambda: [((("topic", odd),), 7)])
    registry.summary(TOTAL_TIME, "Time", histogram)
    families = {family.name: family for family in text_string_to_metric_families(text(registry, dialect))}
    assert len(families) == 2
    (sample,) = families[min(families, key=lambda name: "bytesin" not in name)].samples
    assert (sample.labels, sample.value) == ({"topic": odd}, 7.0)
    assert max(sample.value for family in families.values() for sample in family.samples if "totaltimems" in sample.name) == 2.0


def test_long_metric_comes_in_pieces_that_read_as_one():
    registry = Registry()
    registry.add(BYTES_IN, Kind.COUNTER, "Bytes", lambda: [((("topic", f"t{number}"),), number) for number in range(1000)])
    found = list(pieces(registry))
    assert max(piece.count("\n") for piece in found) == LINES_AT_ONCE
    (family,) = text_string_to_metric_families("".join(found))
    assert [sample.value for sample in family.samples] == [float(number) for number in range(1000)]
