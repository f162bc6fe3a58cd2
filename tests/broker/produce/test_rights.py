"""Who may not write is refused on every way, in the first request and in those behind it."""

from __future__ import annotations

import pytest

from milepost.broker.authorizer import Operation
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.broker.produce.writers import Writers
from milepost.protocol.messages import AddPartitionsToTxnRequest, InitProducerIdRequest
from milepost.record.builder import build_batch
from milepost.record.records import Record
from milepost.security.acls import from_row
from milepost.security.principal import KafkaPrincipal
from tests.broker.attaching import attached
from tests.broker.conftest import SETTINGS
from tests.broker.on_loop import on_loop
from tests.broker.produce.ways import batch, produced, request_of, stored
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire
from tests.golden_fixture import Golden

TOPIC_AUTHORIZATION_FAILED = 29


class OnlyOpen:
    """Lets everybody write to the topic "open", and nowhere else."""

    allows_everything = False
    generation = 0

    def denies(self, access, context) -> str | None:
        return "not there" if access.name == "closed" and access.operation is Operation.WRITE else None

    def note_denial(self, access, requester) -> None:
        """The answers say it."""


def test_topics_that_may_not_be_written_to(way, tmp_path):
    broker = AloneBroker({"log.dirs": str(tmp_path), **SETTINGS}, authorizer=OnlyOpen())
    with Life(broker), Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("open"), wanted("closed"))
        both = request_of({"open": [(0, batch(b"x"))], "closed": [(0, batch(b"y"))]})
        only_open = request_of({"open": [(0, batch(b"z"))]})
        assert produced(wire, [only_open, both, both, only_open]) == [
            [(0, 0)],
            [(0, 1), (TOPIC_AUTHORIZATION_FAILED, -1)],
            [(0, 2), (TOPIC_AUTHORIZATION_FAILED, -1)],
            [(0, 3)],
        ]
        assert stored(wire, "closed") == []


@pytest.mark.parametrize("acks", [1, -1])
def test_attached_directories(way, golden: Golden, acks):
    data = build_batch([Record(0, 1_700_000_000_000, b"k", b"v")], base_offset=0)
    with attached(golden("page_visits/kafka-4.3.0") / "logdir") as broker, Wire(broker.bootstrap_servers) as wire:
        partition = next(iter(broker.logs.logs))
        requests = [request_of({partition.topic: [(partition.partition, data)]}, acks=acks)] * 4
        assert produced(wire, requests) == [[(TOPIC_AUTHORIZATION_FAILED, -1)]] * 4


# With ACLs: a right is asked for in each pass.

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALL, WRITE, ALLOW = 2, 4, 3
WRITES = (2, "open", 3, "User:ANONYMOUS", "*", WRITE, ALLOW)
CREATES = (4, "kafka-cluster", 3, "User:ANONYMOUS", "*", ALL, ALLOW)
SHOWS = (2, "*", 3, "User:ANONYMOUS", "*", 10, ALLOW)
BEGINS = (5, "t", 3, "User:ANONYMOUS", "*", WRITE, ALLOW)


@pytest.fixture
def closed(way, tmp_path):
    with (
        Life(AloneBroker({"log.dirs": str(tmp_path), **SETTINGS, "authorizer.class.name": STANDARD})) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        allow(broker, CREATES, SHOWS)
        create(wire, wanted("open"), wanted("closed"))
        yield broker, wire


def allow(broker, *rows) -> None:
    def give() -> None:
        broker.acl_authorizer.acls.replace(from_row(WRITES).pattern, [])
        for row in rows:
            broker.acl_authorizer.acls.add(from_row(row))

    on_loop(broker, give)


def test_right_that_is_taken_away_and_given_again(closed):
    broker, wire = closed
    requests = [request_of({"open": [(0, batch(b"x"))]})] * 3
    answers = []
    for rows in ((), (WRITES,), (), (WRITES,)):
        allow(broker, *rows)
        answers.append([error for answer in produced(wire, requests) for error, _ in answer])
    assert answers == [[29] * 3, [0] * 3, [29] * 3, [0] * 3]
    assert stored(wire, "closed") == []


def test_right_of_one_topic_is_none_of_another(closed):
    broker, wire = closed
    allow(broker, WRITES)
    both = request_of({"open": [(0, batch(b"x"))], "closed": [(0, batch(b"y"))]})
    only_open = request_of({"open": [(0, batch(b"z"))]})
    found = produced(wire, [only_open, both, only_open])
    assert [[error for error, _ in answer] for answer in found] == [[0], [0, TOPIC_AUTHORIZATION_FAILED], [0]]


def test_record_in_a_transaction_needs_the_right_of_its_id_each_time(closed):
    broker, wire = closed
    allow(broker, WRITES, BEGINS)
    producer = wire.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000), 4)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.V3AndBelowTopic(name="open", partitions=[0])],
    )
    wire.ask(added, 3)

    def send(sequence: int) -> int:
        data = batch(
            b"x",
            is_transactional=True,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
        )
        (answer,) = produced(wire, [request_of({"open": [(0, data)]}, transactional_id="t")])
        return answer[0][0]

    assert [send(0), send(1), send(2)] == [0, 0, 0]
    on_loop(broker, lambda: broker.acl_authorizer.acls.remove(from_row(BEGINS)))
    assert [send(3), send(3)] == [53, 53]
    on_loop(broker, lambda: broker.acl_authorizer.acls.add(from_row(BEGINS)))
    assert send(3) == 0


def test_fast_path_is_one_for_each_principal_and_address():
    made = []
    writers = Writers(OnlyOpen(), lambda writer: made.append(writer) or writer)
    alice, bob = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
    paths = [writers.path_of(who, host) for who in (alice, bob, alice) for host in ("/1.1.1.1", "/2.2.2.2")]
    assert len(made) == 4
    assert [path.principal for path in paths] == [alice, alice, bob, bob, alice, alice]
    for number in range(1000):
        writers.path_of(KafkaPrincipal("User", str(number)), "/1.1.1.1")
        assert len(writers._paths) <= 100
