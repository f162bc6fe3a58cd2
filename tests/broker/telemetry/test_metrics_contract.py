"""The metrics that dashboards and alerts for Kafka look for are there, each and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.scraping import scrape
from tests.broker.telemetry.metered import ON, REQUESTS, TOPICS, fetch, settled
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire

# As far as one broker without ZooKeeper has it: name, type, labels.
BY_TOPIC = ((), ("topic",))
BY_PARTITION = (("partition", "topic"),)
PLAIN = ((),)
CONTRACT = [
    (f"{TOPICS}_messagesin_total", "counter", BY_TOPIC),
    (f"{TOPICS}_bytesin_total", "counter", BY_TOPIC),
    (f"{TOPICS}_bytesout_total", "counter", BY_TOPIC),
    (f"{TOPICS}_bytesrejected_total", "counter", BY_TOPIC),
    (f"{TOPICS}_totalproducerequests_total", "counter", BY_TOPIC),
    (f"{TOPICS}_totalfetchrequests_total", "counter", BY_TOPIC),
    (f"{TOPICS}_failedproducerequests_total", "counter", BY_TOPIC),
    (f"{TOPICS}_failedfetchrequests_total", "counter", BY_TOPIC),
    (f"{TOPICS}_replicationbytesin_total", "counter", PLAIN),
    (f"{TOPICS}_replicationbytesout_total", "counter", PLAIN),
    (f"{TOPICS}_invalidmagicnumberrecords_total", "counter", PLAIN),
    (f"{TOPICS}_invalidmessagecrcrecords_total", "counter", PLAIN),
    (f"{TOPICS}_invalidoffsetorsequencerecords_total", "counter", PLAIN),
    (f"{TOPICS}_nokeycompactedtopicrecords_total", "counter", PLAIN),
    ("kafka_server_replicamanager_underreplicatedpartitions", "gauge", PLAIN),
    ("kafka_server_replicamanager_underminisrpartitioncount", "gauge", PLAIN),
    ("kafka_server_replicamanager_atminisrpartitioncount", "gauge", PLAIN),
    ("kafka_server_replicamanager_offlinereplicacount", "gauge", PLAIN),
    ("kafka_server_replicamanager_partitionswithlatetransactionscount", "gauge", PLAIN),
    ("kafka_server_replicamanager_partitioncount", "gauge", PLAIN),
    ("kafka_server_replicamanager_leadercount", "gauge", PLAIN),
    ("kafka_server_replicamanager_isrshrinks_total", "counter", PLAIN),
    ("kafka_server_replicamanager_isrexpands_total", "counter", PLAIN),
    ("kafka_server_replicamanager_failedisrupdates_total", "counter", PLAIN),
    ("kafka_controller_kafkacontroller_activecontrollercount", "gauge", PLAIN),
    ("kafka_controller_kafkacontroller_offlinepartitionscount", "gauge", PLAIN),
    ("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", "gauge", PLAIN),
    ("kafka_controller_kafkacontroller_globaltopiccount", "gauge", PLAIN),
    ("kafka_controller_kafkacontroller_globalpartitioncount", "gauge", PLAIN),
    ("kafka_controller_controllerstats_uncleanleaderelections_total", "counter", PLAIN),
    ("kafka_controller_controllerstats_leaderelectionrateandtimems", "summary", (("quantile",),)),
    ("kafka_cluster_partition_underminisr", "gauge", BY_PARTITION),
    ("kafka_cluster_partition_atminisr", "gauge", BY_PARTITION),
    ("kafka_cluster_partition_underreplicated", "gauge", BY_PARTITION),
    ("kafka_log_log_size", "gauge", BY_PARTITION),
    ("kafka_log_log_numlogsegments", "gauge", BY_PARTITION),
    ("kafka_log_log_logstartoffset", "gauge", BY_PARTITION),
    ("kafka_log_log_logendoffset", "gauge", BY_PARTITION),
    ("kafka_log_logmanager_offlinelogdirectorycount", "gauge", PLAIN),
    ("kafka_log_logflushstats_logflushrateandtimems", "summary", (("quantile",),)),
    (f"{REQUESTS}_requests_total", "counter", (("request", "version"),)),
    (f"{REQUESTS}_errors_total", "counter", (("error", "request"),)),
    (f"{REQUESTS}_totaltimems", "summary", (("quantile", "request"),)),
    (f"{REQUESTS}_requestqueuetimems", "summary", (("quantile", "request"),)),
    (f"{REQUESTS}_localtimems", "summary", (("quantile", "request"),)),
    (f"{REQUESTS}_remotetimems", "summary", (("quantile", "request"),)),
    (f"{REQUESTS}_responsequeuetimems", "summary", (("quantile", "request"),)),
    (f"{REQUESTS}_responsesendtimems", "summary", (("quantile", "request"),)),
    ("kafka_network_requestchannel_requestqueuesize", "gauge", PLAIN),
    ("kafka_network_requestchannel_responsequeuesize", "gauge", PLAIN),
    ("kafka_network_socketserver_networkprocessoravgidlepercent", "gauge", PLAIN),
    ("kafka_network_socketserver_networkprocessoravgidle_percent", "gauge", PLAIN),
    ("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "gauge", PLAIN),
    ("kafka_server_socket_server_metrics_connection_count", "gauge", (("listener", "networkProcessor"),)),
    ("kafka_server_socket_server_metrics_connection_creation_rate", "gauge", (("listener", "networkProcessor"),)),
    ("kafka_server_socket_server_metrics_connection_close_rate", "gauge", (("listener", "networkProcessor"),)),
    ("kafka_server_delayedoperationpurgatory_purgatorysize", "gauge", (("delayedOperation",),)),
    ("kafka_server_replicafetchermanager_maxlag", "gauge", (("clientId",),)),
    ("kafka_server_fetchsessioncache_numincrementalfetchsessions", "gauge", PLAIN),
    ("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", "counter", PLAIN),
    ("kafka_coordinator_group_groupmetadatamanager_numgroups", "gauge", PLAIN),
    ("kafka_coordinator_group_groupmetadatamanager_numgroupsstable", "gauge", PLAIN),
    ("kafka_coordinator_group_groupmetadatamanager_numgroupsempty", "gauge", PLAIN),
    ("kafka_coordinator_group_groupmetadatamanager_numgroupsdead", "gauge", PLAIN),
    ("kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", "gauge", PLAIN),
    ("kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", "gauge", PLAIN),
    ("kafka_coordinator_group_groupmetadatamanager_numoffsets", "gauge", PLAIN),
    ("kafka_server_kafkaserver_brokerstate", "gauge", PLAIN),
]


@pytest.mark.parametrize("dialect", ["strimzi", "confluent"])
def test_metrics_that_dashboards_look_for_are_there(brokers, dialect):
    broker = brokers.start({**ON, "milepost.metrics.dialect": dialect})
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
        produce(wire, "t", [b"a"])
        fetch(wire, 0)
    found = scrape(broker)
    for name, kind, labels in CONTRACT:
        if dialect == "confluent":
            name = name.replace("socket_server_metrics", "socketservermetrics")
            if kind == "counter":
                name = f"{name.removesuffix('_total')}persec"
            if name.endswith("networkprocessoravgidle_percent"):
                continue
            name = name.replace("requesthandleravgidle_percent", "requesthandleravgidlepercent_total")
            kind = "gauge" if kind == "gauge" else "untyped"
            labels = tuple(tuple(label.lower() for label in each) for each in labels)
        assert found.types.get(name) == kind, name
        assert set(labels) <= found.labels(name), name


def test_page_of_metrics_lists_each_and_no_other(brokers):
    page = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith(("| `kafka_", "| `milepost_", "| `process_"))]
    listed = {row[1].strip(" `"): row[2].strip() for row in rows}
    settings = {
        **ON,
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "control.plane.listener.name": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "queued.max.request.bytes": "1000000000",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = brokers.start(settings)
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))
    assert settled(broker, f"{REQUESTS}_requests_total", 1, request="CreateTopics", version="7").types == listed
