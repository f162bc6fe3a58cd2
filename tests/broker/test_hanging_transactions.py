"""A hanging transaction: open in a partition, unknown to its coordinator. It holds up readers of committed data until somebody aborts it.

Since KIP-890 no client can make one: a partition takes the first record of a transaction only if the coordinator knows of it. Here that
check is switched off, as it was in older brokers; then the tools of an administrator find the transaction and end it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.broker.broker import Broker
from milepost.protocol.messages import WriteTxnMarkersRequest
from tests.broker.peers import EverybodyIsABroker
from tests.broker.topics import create, wanted
from tests.broker.transaction_talk import Producer, Talk
from tests.clients.java_tools import JavaTools

UNVERIFIED = {"transaction.partition.verification.enable": "false", "transaction.state.log.num.partitions": "2"}


@pytest.fixture
def unverified(brokers) -> Broker:
    return brokers.start(UNVERIFIED)


@pytest.fixture
def talk(unverified) -> Iterator[Talk]:
    talk = Talk(unverified.bootstrap_servers)
    yield talk
    talk.close()


def hang(talk: Talk, name: str = "visits") -> Producer:
    """Three records, two of them in a transaction that nobody will ever end."""
    talk.topic(name, 1)
    lost = Producer(4000, 3)
    talk.produce(None, Producer(4001, 0), f"{name}-0", 0)
    talk.produce("gone", lost, f"{name}-0", 0, version=9, count=2)
    talk.lines.clear()
    return lost


def test_readers_of_committed_data_wait_for_it(talk):
    hang(talk)
    talk.log("visits-0")
    talk.producers("visits-0")
    talk.transaction("gone")
    assert talk.lines == [
        "Fetch visits-0: stable 1 of 3 aborted none",
        "DescribeProducers visits-0: NONE; p2/3 sequence 1 coordinator -1 start 1; p1/0 sequence 0 coordinator -1 start -1",
        "DescribeTransactions gone: TRANSACTIONAL_ID_NOT_FOUND not begun",
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_an_abort_lets_them_go_on(talk, version):
    lost = hang(talk)
    talk.mark(lost, False, "visits-0", version=version)
    talk.log("visits-0")
    assert talk.lines == [
        f"WriteTxnMarkers {version} p2/3 abort coordinator 0 level 0 visits-0: visits-0 NONE",
        "Fetch visits-0: stable 4 of 4 aborted p2 from 1",
    ]


def test_a_coordinators_commit_shows_its_records(talk, unverified):
    lost = hang(talk)
    unverified.topology = unverified.topology._replace(peers=EverybodyIsABroker())
    talk.mark(lost, True, "visits-0")
    talk.log("visits-0")
    assert talk.lines[1:] == ["Fetch visits-0: stable 4 of 4 aborted none"]


def test_an_administrator_ends_what_is_open_in_its_epoch_and_nothing_else(talk):
    """Kafka without an authorizer takes all of these: a commit of somebody else's records, an epoch that locks the producer out."""
    lost = hang(talk)
    above, below, stranger = Producer(4000, 4), Producer(4000, 2), Producer(5000, 0)
    talk.mark(lost, True, "visits-0")
    talk.mark(above, False, "visits-0")
    talk.mark(above, True, "visits-0", level=2)
    talk.mark(above, False, "visits-0", level=2)
    talk.mark(below, False, "visits-0")
    talk.mark(lost, False, "visits-0", coordinator_epoch=1_000_000)
    talk.mark(lost, False, "visits-0", coordinator_epoch=1)
    talk.mark(Producer(4001, 0), False, "visits-0")
    talk.mark(stranger, False, "visits-0")
    assert [line.rpartition(" ")[2] for line in talk.lines] == [
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_PRODUCER_EPOCH",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_EPOCH",
        "CLUSTER_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TXN_STATE",
        "INVALID_TXN_STATE",
    ]
    talk.lines.clear()
    talk.log("visits-0")
    talk.mark(lost, False, "visits-0")
    talk.mark(lost, False, "visits-0")
    assert talk.lines == [
        "Fetch visits-0: stable 1 of 3 aborted none",
        "WriteTxnMarkers 2 p2/3 abort coordinator 0 level 0 visits-0: visits-0 NONE",
        "WriteTxnMarkers 2 p2/3 abort coordinator 0 level 0 visits-0: visits-0 INVALID_TXN_STATE",
    ]


def test_an_abort_survives_a_restart(brokers, unverified):
    talk = Talk(unverified.bootstrap_servers)
    talk.mark(hang(talk), False, "visits-0")
    talk.close()
    brokers.stop(unverified)
    talk = Talk(brokers.start(UNVERIFIED).bootstrap_servers)
    talk.log("visits-0")
    talk.close()
    assert talk.lines == ["Fetch visits-0: stable 4 of 4 aborted p1 from 1"]


@pytest.mark.parametrize(("producer_id", "epoch", "code"), [(-1, 0, 49), (5, -1, 47)])
def test_a_marker_for_no_producer_is_refused(wire, producer_id, epoch, code):
    create(wire, wanted("visits"))
    asked = WriteTxnMarkersRequest.Marker
    marker = asked(
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[asked.Topic(name="visits", partition_indexes=[0, 0])],
        coordinator_epoch=0,
    )
    (answer,) = wire.ask(WriteTxnMarkersRequest(markers=[marker]), 1).markers
    assert [part.error_code for part in answer.topics[0].partitions] == [code, code]


def test_with_verification_nobody_can_make_one(wire, broker):
    talk = Talk(broker.bootstrap_servers)
    talk.topic("visits", 1)
    talk.produce("gone", Producer(4000, 3), "visits-0", 0, version=9)
    talk.close()
    assert talk.lines == ["Produce 9 gone p1/3 visits-0 sequence 0 x1: INVALID_PRODUCER_ID_MAPPING -1"]


# Kafka's tool.


@pytest.fixture(params=["3.9.1", "4.3.0"])
def tools(request: pytest.FixtureRequest, unverified: Broker, tmp_path) -> Iterator[JavaTools]:
    running = JavaTools(request.param, unverified.bootstrap_servers, tmp_path / "errors")
    yield running
    running.close()


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines() if line.strip()][1:]


@pytest.mark.kafka
def test_kafkas_tool_finds_and_aborts_it(talk, tools, unverified):
    hang(talk, "one")
    hang(talk, "two")
    found = {row[0]: row[1:6] for row in rows(tools.run("transactions", "find-hanging", "--broker-id", "0"))}
    assert found == {name: ["0", "4000", "3", "-1", "1"] for name in ("one", "two")}
    one, two = (["--topic", name, "--partition", "0"] for name in ("one", "two"))
    tools.run("transactions", "abort", *one, "--start-offset", "1")
    tools.run("transactions", "abort", *two, "--producer-id", "4000", "--producer-epoch", "3", "--coordinator-epoch", "0")
    assert rows(tools.run("transactions", "find-hanging", "--broker-id", "0")) == []
    producers = {row[0]: row[-1] for row in rows(tools.run("transactions", "describe-producers", *one))}
    assert producers == {"4000": "None", "4001": "None"}
    talk.log("one-0")
    talk.log("two-0")
    assert talk.lines == [
        "Fetch one-0: stable 4 of 4 aborted p2 from 1",
        "Fetch two-0: stable 4 of 4 aborted p2 from 1",
    ]


@pytest.mark.kafka
def test_kafkas_tool_lists_and_describes_transactions(talk, tools):
    talk.topic("visits", 1)
    talk.coordinators("open", "done")
    opened = talk.init("open")
    talk.produce("open", opened, "visits-0", 0)
    done = talk.init("done")
    talk.produce("done", done, "visits-0", 0)
    talk.end("done", done, True)
    listed = {row[0]: (row[2], row[3]) for row in rows(tools.run("transactions", "list"))}
    assert listed == {"open": (str(opened.producer_id), "Ongoing"), "done": (str(done.producer_id), "CompleteCommit")}
    (row,) = rows(tools.run("transactions", "describe", "--transactional-id", "open"))
    assert (row[1], row[2], row[3], row[4], row[-1]) == ("open", str(opened.producer_id), "0", "Ongoing", "visits-0")
    assert rows(tools.run("transactions", "find-hanging", "--broker-id", "0")) == []
