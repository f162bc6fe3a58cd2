"""An authorizer is asked for every resource of a request that changes something; what it denies is answered, the rest is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from milepost.broker.authorizer import EVERYBODY, Access, Authorizer, Operation, ResourceType
from milepost.broker.dispatch import Dispatcher, module_name, served_apis
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.kinds.zookeeper import served_apis as cluster_apis
from milepost.broker.lifecycle import Life
from milepost.broker.rights.table import GUARDS, UNGUARDED
from milepost.protocol.apis import Api
from milepost.protocol.messages import (
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
)
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.conftest import SETTINGS
from tests.broker.wire import Wire

DENIED = "secret"
WHY = "not for you"
TOPIC, CLUSTER, TRANSACTION = 29, 31, 53


class Picky:
    """It denies everything that is called `secret`, all that is the cluster's, and what is asked of topics without a name."""

    allows_everything = False
    generation = 0

    def __init__(self) -> None:
        self.asked: list[Access] = []

    def denies(self, access: Access, context: object) -> str | None:
        self.asked.append(access)
        is_denied = access.name == DENIED or access.is_any or access.resource_type is ResourceType.CLUSTER
        return WHY if is_denied else None

    def note_denial(self, access, requester) -> None:
        """The answers say it."""


@pytest.fixture
def picky() -> Picky:
    return Picky()


@pytest.fixture
def wire(tmp_path: Path, picky: Picky) -> Iterator[Wire]:
    with (
        Life(AloneBroker({"log.dirs": str(tmp_path), **SETTINGS}, authorizer=picky)) as broker,
        Wire(broker.bootstrap_servers) as wire,
    ):
        yield wire


def create(wire: Wire, *names: str) -> dict[str, tuple[int, str | None]]:
    topics = [CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1) for name in names]
    return {
        topic.name: (topic.error_code, topic.error_message) for topic in wire.ask(CreateTopicsRequest(topics=topics), 7).topics
    }


def topics_of(wire: Wire) -> list[str]:
    return sorted(topic.name for topic in wire.ask(MetadataRequest(topics=None), 9).topics)


def produce(wire: Wire, *names: str, acks: int = -1) -> dict[str, int]:
    batch = memoryview(build_batch([Record(0, 1, None, b"x")]))
    Topic = ProduceRequest.TopicData
    topics = [Topic(name=name, partition_data=[Topic.PartitionData(index=0, records=batch)]) for name in names]
    answer = wire.ask(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics), 9)
    return {topic.name: topic.partition_responses[0].error_code for topic in answer.responses}


def test_every_api_that_is_served_is_guarded_or_known_not_to_be():
    assert not UNGUARDED & GUARDS.keys()
    assert UNGUARDED | GUARDS.keys() == {api.name for api in (served_apis() | cluster_apis()).values()}


BETWEEN_BROKERS = {
    "AllocateProducerIds",
    "AlterPartition",
    "ControlledShutdown",
    "LeaderAndIsr",
    "SaslAuthenticate",
    "SaslHandshake",
    "StopReplica",
    "UpdateMetadata",
}
"""What their handlers get besides is given to them by the dispatcher."""


def handlers(authorizer: Authorizer, served: Mapping[int, Api]) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """By API: what a dispatcher calls, and the handler itself."""
    dispatcher = Dispatcher(None, authorizer, served, object())  # type: ignore[arg-type]
    return {
        api.name: (dispatcher.handler_of(api), import_module(f"milepost.broker.requests.{module_name(api)}").handle)
        for api in served.values()
    }


@pytest.mark.parametrize("served", [served_apis(), cluster_apis()], ids=["alone", "in a cluster"])
def test_every_handler_is_reached_through_the_authorizer_but_for_those_that_are_listed(served, picky):
    reached = handlers(picky, served)
    past = {name for name, (called, handler) in reached.items() if called is handler or isinstance(called, partial)}
    assert past == UNGUARDED & reached.keys()


@pytest.mark.parametrize("served", [served_apis(), cluster_apis()], ids=["alone", "in a cluster"])
def test_where_everybody_may_do_everything_nothing_stands_before_a_handler(served):
    reached = handlers(EVERYBODY, served)
    assert {name for name, (called, handler) in reached.items() if called is not handler} == BETWEEN_BROKERS & reached.keys()


def test_topic_that_is_denied_is_not_made_and_the_others_are(wire, picky):
    assert create(wire, "visits", DENIED, "orders") == {"visits": (0, None), "orders": (0, None), DENIED: (TOPIC, WHY)}
    assert topics_of(wire) == ["orders", "visits"]
    created = [access for access in picky.asked if access.operation is Operation.CREATE]
    in_cluster = Access(Operation.CREATE, ResourceType.CLUSTER)
    assert created == [
        access
        for name in ("visits", DENIED, "orders")
        for access in (in_cluster, Access(Operation.CREATE, ResourceType.TOPIC, name))
    ]


def test_records_of_a_topic_that_is_denied_are_refused_each_time(wire, picky):
    create(wire, "visits")
    for _ in range(3):
        assert produce(wire, "visits", DENIED) == {"visits": 0, DENIED: TOPIC}
    for _ in range(3):
        assert produce(wire, DENIED) == {DENIED: TOPIC}
    written = {access for access in picky.asked if access.operation is Operation.WRITE}
    assert written == {Access(Operation.WRITE, ResourceType.TOPIC, name) for name in ("visits", DENIED)}


def test_denied_request_without_acknowledgement_ends_the_connection(wire):
    with pytest.raises(ConnectionError):
        produce(wire, DENIED, acks=0)


@pytest.mark.parametrize("version", [5, 6])
def test_deletion_that_is_denied_leaves_the_topic(wire, version):
    create(wire, "visits", "orders")
    names = ["visits", DENIED]
    topics = [DeleteTopicsRequest.Topic(name=name) for name in names]
    request = DeleteTopicsRequest(topics=topics) if version >= 6 else DeleteTopicsRequest(topic_names=names)
    assert {each.name: each.error_code for each in wire.ask(request, version).responses} == {"visits": 0, DENIED: TOPIC}
    assert topics_of(wire) == ["orders"]


def test_settings_are_asked_for_by_the_resource_that_has_them(wire, picky):
    create(wire, "visits")
    Resource = AlterConfigsRequest.Resource
    resources = [Resource(resource_type=kind, resource_name=name) for kind, name in ((2, "visits"), (2, DENIED), (4, "0"))]
    answer = wire.ask(AlterConfigsRequest(resources=resources), 2)
    codes = {(each.resource_type, each.resource_name): each.error_code for each in answer.responses}
    assert codes == {(2, "visits"): 0, (2, DENIED): TOPIC, (4, "0"): CLUSTER}


def test_quotas_are_the_clusters(wire):
    Entry = AlterClientQuotasRequest.Entry
    request = AlterClientQuotasRequest(entries=[Entry(entity=[Entry.Entity(entity_type="user", entity_name="u")], ops=[])])
    assert [(each.error_code, each.error_message) for each in wire.ask(request, 1).entries] == [(CLUSTER, WHY)]


def test_producer_id_is_for_a_transactional_id_or_for_idempotence(wire):
    asked = InitProducerIdRequest(transactional_id=DENIED, transaction_timeout_ms=1000)
    assert wire.ask(asked, 4).error_code == TRANSACTION
    assert wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4).error_code == CLUSTER
    assert wire.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 4).error_code == 0
    assert wire.ask(EndTxnRequest(transactional_id=DENIED), 3).error_code == TRANSACTION
