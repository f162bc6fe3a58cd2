"""What one client of the single broker sees of three brokers; `make trouble` asks all clients, for everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.cluster.zookeeper.server import ZooKeeperServer
from tests.clients import test_librdkafka as librdkafka
from tests.clients.served_cluster import ServedCluster

SHORT = [
    librdkafka.test_keys_headers_nulls_and_timestamps_come_back,
    librdkafka.test_a_new_consumer_goes_on_where_the_group_committed,
    librdkafka.test_an_idempotent_producer_writes_each_record_once_in_order,
    librdkafka.test_committed_transactions_are_read_and_aborted_ones_are_not,
    librdkafka.test_offsets_in_a_transaction_follow_its_outcome,
    librdkafka.test_topics_are_created_grown_configured_and_deleted,
]


@pytest.fixture(scope="module")
def served(zookeeper_server: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    running = ServedCluster(tmp_path_factory.mktemp("served"))
    yield running
    running.stop()


@pytest.mark.parametrize("seen", SHORT, ids=lambda seen: seen.__name__.removeprefix("test_"))
def test_three_brokers_are_seen_as_one(served, seen):
    seen(served)
