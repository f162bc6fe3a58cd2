"""Joining a cluster: nodes, id and epoch as Kafka 3.9.1 and 2.4 leave them, and what happens when somebody is there already."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.registration import BrokerIdTaken, cluster_id, make_nodes, register
from milepost.cluster.zookeeper.session import Runner
from milepost.cluster.zookeeper.znodes import BrokerNode
from milepost.errors import InvalidConfiguration
from milepost.replica.metadata import Endpoint
from tests.cluster.zookeeper.lossy_session import ANSWERED, UNANSWERED, UNSENT, LossySession
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelSession, ModelZooKeeper

ENDPOINTS = (
    Endpoint("CLIENT", "PLAINTEXT", "127.0.0.1", 23131),
    Endpoint("REPL", "PLAINTEXT", "127.0.0.1", 23132),
    Endpoint("CTRL", "PLAINTEXT", "127.0.0.1", 23133),
)
# Written by Kafka 3.9.1 with inter.broker.protocol.version 3.9.
BROKER_1 = (
    b'{"features":{},"listener_security_protocol_map":{"CLIENT":"PLAINTEXT","REPL":"PLAINTEXT","CTRL":"PLAINTEXT"},'
    b'"endpoints":["CLIENT://127.0.0.1:23131","REPL://127.0.0.1:23132","CTRL://127.0.0.1:23133"],"rack":"r1","jmx_port":-1,'
    b'"port":23131,"host":"127.0.0.1","version":5,"timestamp":"1794740035900"}'
)
AT_START = [
    *(
        "/consumers",
        "/brokers",
        "/brokers/ids",
        "/brokers/topics",
        "/config",
        "/config/changes",
        "/admin",
        "/admin/delete_topics",
    ),
    *("/brokers/seqid", "/isr_change_notification", "/latest_producer_id_block", "/log_dir_event_notification"),
    *("/config/topics", "/config/clients", "/config/users", "/config/brokers", "/config/ips", "/feature"),
]


class Place:
    def __init__(self) -> None:
        self.turns, self.server = Turns(), ModelZooKeeper()

    def session(self, number: int) -> ModelSession:
        made = ModelSession(self.server, self.turns)
        made.session_id = number
        return made

    def run(self, steps: Any, session: ModelSession | None = None) -> Any:
        results: list[Any] = []
        errors: list[Exception] = []
        Runner(session or self.session(1), errors.append).run(steps, results.append)
        self.turns.settle()
        if errors:
            raise errors[0]
        return results[0]


@pytest.fixture
def place() -> Place:
    return Place()


def test_first_broker_makes_the_nodes_in_kafkas_order(place):
    place.run(make_nodes(protocol_versions("3.9")))
    assert [operation.path for _, operation in place.server.writes] == AT_START
    assert place.server.nodes["/feature"].data == b'{"features":{},"version":2,"status":1}'


def test_older_cluster_has_no_feature_node(place):
    place.run(make_nodes(protocol_versions("2.4")))
    assert "/feature" not in place.server.nodes


def test_second_broker_finds_them(place):
    place.run(make_nodes(protocol_versions("3.9")))
    before = len(place.server.writes)
    place.run(make_nodes(protocol_versions("3.9")))
    assert len(place.server.writes) == before


def test_cluster_id_is_that_of_the_first(place):
    assert place.run(cluster_id("dhUa-puKRbeoLy5s-D-wEA")) == "dhUa-puKRbeoLy5s-D-wEA"
    assert place.server.nodes["/cluster/id"].data == b'{"version":"1","id":"dhUa-puKRbeoLy5s-D-wEA"}'
    assert place.run(cluster_id("another")) == "dhUa-puKRbeoLy5s-D-wEA"


def test_cluster_id_that_makes_no_sense_is_a_sentence(place):
    place.run(cluster_id("x"))
    place.server.nodes["/cluster/id"].data = b"[]"
    with pytest.raises(InvalidConfiguration, match="/cluster/id holds b'\\[\\]'"):
        place.run(cluster_id("y"))


def test_broker_registers_with_kafkas_bytes_and_learns_its_epoch(place):
    versions = protocol_versions("3.9")
    place.run(make_nodes(versions))
    epoch = place.run(register(1, BrokerNode(ENDPOINTS, "r1"), 1, 1794740035900, versions))
    node = place.server.nodes["/brokers/ids/1"]
    assert (node.data, node.version, node.owner, node.czxid) == (BROKER_1, 1, 1, epoch)


def test_older_protocol_writes_version_4(place):
    versions = protocol_versions("2.4")
    place.run(make_nodes(versions))
    place.run(register(1, BrokerNode(ENDPOINTS[:1]), 1, 0, versions))
    assert place.server.nodes["/brokers/ids/1"].data == (
        b'{"listener_security_protocol_map":{"CLIENT":"PLAINTEXT"},"endpoints":["CLIENT://127.0.0.1:23131"],"jmx_port":-1,'
        b'"port":23131,"host":"127.0.0.1","version":4,"timestamp":"0"}'
    )


def test_id_of_another_session_is_taken(place):
    versions = protocol_versions("3.9")
    place.run(make_nodes(versions))
    place.run(register(1, BrokerNode(ENDPOINTS), 1, 0, versions), place.session(1))
    with pytest.raises(BrokerIdTaken, match="a broker with id 1 is registered already"):
        place.run(register(1, BrokerNode(ENDPOINTS), 2, 0, versions), place.session(2))


def test_own_registration_is_made_anew(place):
    versions = protocol_versions("3.9")
    place.run(make_nodes(versions))
    session = place.session(1)
    first = place.run(register(1, BrokerNode(ENDPOINTS), 1, 0, versions), session)
    assert place.run(register(1, BrokerNode(ENDPOINTS), 1, 0, versions), session) > first


@pytest.mark.parametrize("fate", [UNANSWERED, UNSENT])
def test_nodes_that_every_cluster_has_are_made_though_the_connection_is_lost(place, fate):
    session = LossySession(place.server, place.turns)
    session.fates = [fate]
    place.run(make_nodes(protocol_versions("3.9")), session)
    assert set(AT_START) < set(place.server.nodes)


@pytest.mark.parametrize("fate", [UNANSWERED, UNSENT])
@pytest.mark.parametrize("lost_at", [0, 1, 2])
def test_cluster_id_is_made_though_the_connection_is_lost(place, lost_at, fate):
    session = LossySession(place.server, place.turns)
    session.fates = [ANSWERED] * lost_at + [fate]
    assert place.run(cluster_id("dhUa-puKRbeoLy5s-D-wEA"), session) == "dhUa-puKRbeoLy5s-D-wEA"
