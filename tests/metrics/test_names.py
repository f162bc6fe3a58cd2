"""Kafka's names in the two spellings that dashboards for Prometheus use."""

from __future__ import annotations

import pytest

from milepost.metrics.names import Dialect, Kind, MetricName, own

COUNTER, GAUGE, SUMMARY = Kind.COUNTER, Kind.GAUGE, Kind.SUMMARY


@pytest.mark.parametrize(
    ("domain", "type", "name", "kind", "strimzi", "confluent"),
    [
        (
            "kafka.server",
            "BrokerTopicMetrics",
            "MessagesInPerSec",
            COUNTER,
            "kafka_server_brokertopicmetrics_messagesin_total",
            "kafka_server_brokertopicmetrics_messagesinpersec",
        ),
        (
            "kafka.server",
            "ReplicaManager",
            "UnderReplicatedPartitions",
            GAUGE,
            "kafka_server_replicamanager_underreplicatedpartitions",
            "kafka_server_replicamanager_underreplicatedpartitions",
        ),
        (
            "kafka.network",
            "RequestMetrics",
            "TotalTimeMs",
            SUMMARY,
            "kafka_network_requestmetrics_totaltimems",
            "kafka_network_requestmetrics_totaltimems",
        ),
        (
            "kafka.server",
            "KafkaRequestHandlerPool",
            "RequestHandlerAvgIdlePercent",
            GAUGE,
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
            "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total",
        ),
        (
            "kafka.server",
            "socket-server-metrics",
            "connection-count",
            GAUGE,
            "kafka_server_socket_server_metrics_connection_count",
            "kafka_server_socketservermetrics_connection_count",
        ),
        (
            "kafka.server",
            "socket-server-metrics",
            "connection-creation-total",
            COUNTER,
            "kafka_server_socket_server_metrics_connection_creation_total",
            "kafka_server_socketservermetrics_connection_creation_total",
        ),
        (
            "kafka.coordinator.group",
            "GroupMetadataManager",
            "NumGroupsStable",
            GAUGE,
            "kafka_coordinator_group_groupmetadatamanager_numgroupsstable",
            "kafka_coordinator_group_groupmetadatamanager_numgroupsstable",
        ),
        (
            "kafka.log",
            "LogFlushStats",
            "LogFlushRateAndTimeMs",
            SUMMARY,
            "kafka_log_logflushstats_logflushrateandtimems",
            "kafka_log_logflushstats_logflushrateandtimems",
        ),
    ],
)
def test_name_in_each_dialect(domain, type, name, kind, strimzi, confluent):
    metric = MetricName(domain, type, name)
    assert metric.spelled(Dialect.STRIMZI, kind) == strimzi
    assert metric.spelled(Dialect.CONFLUENT, kind) == confluent


def test_network_idle_time_has_both_spellings_that_are_in_use():
    name = MetricName("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent")
    assert name.spellings(Dialect.STRIMZI, GAUGE) == (
        "kafka_network_socketserver_networkprocessoravgidle_percent",
        "kafka_network_socketserver_networkprocessoravgidlepercent",
    )
    assert name.spellings(Dialect.CONFLUENT, GAUGE) == ("kafka_network_socketserver_networkprocessoravgidlepercent",)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_metric_of_our_own_has_one_spelling(dialect):
    assert own("event_loop_longest_pass_seconds").spellings(dialect, GAUGE) == ("milepost_event_loop_longest_pass_seconds",)
