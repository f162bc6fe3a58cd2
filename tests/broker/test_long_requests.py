"""Requests that list much are handled in slices: whatever their cost grows with, there is a pause in it."""

from __future__ import annotations

from collections.abc import Iterator
from types import GeneratorType
from typing import Any

import pytest

from milepost.broker.broker import Broker
from milepost.broker.requests import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_client_quotas,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    incremental_alter_configs,
    list_config_resources,
    metadata,
    offset_fetch,
    update_features,
)
from milepost.protocol.messages import (
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    MetadataRequest,
    OffsetFetchRequest,
    UpdateFeaturesRequest,
)
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire

COUNT = 300
NAMES = [f"nobody-{number}" for number in range(COUNT)]
NUMBERS = list(range(COUNT))
TOPICS, PARTITIONS = 40, 50
"""Of the broker."""


@pytest.fixture
def broker(brokers) -> Broker:
    return brokers.start()


@pytest.fixture
def wire(broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


Dirs = AlterReplicaLogDirsRequest.Dir
Quotas = AlterClientQuotasRequest.Entry
QUOTAS = [
    Quotas(entity=[Quotas.Entity(entity_type="user", entity_name=name)], ops=[Quotas.Op(key="producer_byte_rate", value=5.0)])
    for name in NAMES
]
NAMED = [
    (metadata, MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in NAMES], allow_auto_topic_creation=False), 12),
    (create_topics, CreateTopicsRequest(topics=[wanted("a b")] + [wanted(name) for name in NAMES], validate_only=True), 7),
    (delete_topics, DeleteTopicsRequest(topics=[DeleteTopicsRequest.Topic(name=name) for name in NAMES]), 6),
    (
        create_partitions,
        CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name=name, count=2, assignments=None) for name in NAMES]),
        3,
    ),
    (
        alter_configs,
        AlterConfigsRequest(resources=[AlterConfigsRequest.Resource(resource_type=2, resource_name=name) for name in NAMES]),
        2,
    ),
    (
        incremental_alter_configs,
        IncrementalAlterConfigsRequest(
            resources=[IncrementalAlterConfigsRequest.Resource(resource_type=2, resource_name=name) for name in NAMES]
        ),
        1,
    ),
    (
        describe_configs,
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.Resource(resource_type=2, resource_name=name, configuration_keys=None) for name in NAMES
            ]
        ),
        4,
    ),
    (alter_client_quotas, AlterClientQuotasRequest(entries=QUOTAS), 1),
    (
        describe_topic_partitions,
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in NAMES], response_partition_limit=2000
        ),
        0,
    ),
    (
        alter_replica_log_dirs,
        AlterReplicaLogDirsRequest(dirs=[Dirs(path="/nowhere", topics=[Dirs.Topic(name="t", partitions=NUMBERS)])]),
        2,
    ),
    (
        elect_leaders,
        ElectLeadersRequest(topic_partitions=[ElectLeadersRequest.TopicPartition(topic="t", partitions=NUMBERS)]),
        2,
    ),
    (
        describe_log_dirs,
        DescribeLogDirsRequest(topics=[DescribeLogDirsRequest.Topic(topic="t", partitions=NUMBERS)]),
        4,
    ),
    (
        describe_topic_partitions,
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.Topic(name=name) for name in NAMES],
            cursor=DescribeTopicPartitionsRequest.Cursor(topic_name="elsewhere", partition_index=0),
        ),
        0,
    ),
    (metadata, MetadataRequest(topics=[MetadataRequest.Topic(topic_id=b"i" * 16, name=name) for name in NAMES]), 11),
    (
        update_features,
        UpdateFeaturesRequest(
            feature_updates=[UpdateFeaturesRequest.FeatureUpdate(feature="group.version", max_version_level=1)] * COUNT,
            validate_only=True,
        ),
        1,
    ),
    (describe_quorum, DescribeQuorumRequest(topics=[DescribeQuorumRequest.Topic(topic_name=name) for name in NAMES]), 2),
    (
        describe_client_quotas,
        DescribeClientQuotasRequest(
            components=[DescribeClientQuotasRequest.Component(entity_type="user", match_type=2, match=None)] * COUNT
        ),
        1,
    ),
]
AGAIN = [
    (metadata, MetadataRequest(topics=[MetadataRequest.Topic(name="again")] * COUNT), 1, 2 * COUNT),
    (metadata, MetadataRequest(topics=[MetadataRequest.Topic(name="again")] * COUNT), 12, COUNT),
    (create_topics, CreateTopicsRequest(topics=[wanted("again")] * COUNT), 7, COUNT),
    (
        create_partitions,
        CreatePartitionsRequest(topics=[CreatePartitionsRequest.Topic(name="again", count=2, assignments=None)] * COUNT),
        3,
        COUNT,
    ),
    (
        describe_topic_partitions,
        DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.Topic(name="again")] * COUNT, response_partition_limit=2000
        ),
        0,
        COUNT,
    ),
    (
        offset_fetch,
        OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id="again", topics=[])] * COUNT),
        9,
        COUNT,
    ),
    (
        alter_configs,
        AlterConfigsRequest(resources=[AlterConfigsRequest.Resource(resource_type=2, resource_name="again")] * COUNT),
        2,
        2 * COUNT,
    ),
    (
        alter_partition_reassignments,
        AlterPartitionReassignmentsRequest(
            topics=[
                AlterPartitionReassignmentsRequest.Topic(
                    name="again",
                    partitions=[AlterPartitionReassignmentsRequest.Topic.Partition(partition_index=0, replicas=None)] * COUNT,
                )
            ]
        ),
        1,
        2 * COUNT,
    ),
]
ALL = [
    (metadata, MetadataRequest(topics=None), 12, TOPICS * PARTITIONS),
    (describe_log_dirs, DescribeLogDirsRequest(topics=None), 4, TOPICS * PARTITIONS),
    (list_config_resources, ListConfigResourcesRequest(resource_types=[]), 1, TOPICS),
    (describe_topic_partitions, DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2000), 0, TOPICS),
]


def name_of(value: Any) -> str | None:
    return value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else None


def pauses_of(module: Any, monkeypatch, wire: Wire, request: Any, version: int) -> int:
    """How often the handler of a request lets others go first."""
    pauses = [0]
    handle = module.handle

    def counted(work: Any) -> Iterator[Any]:
        while True:
            try:
                step = next(work)
            except StopIteration as end:
                return end.value
            pauses[0] += 1
            yield step

    def counting(request: Any, context: Any) -> Any:
        work = handle(request, context)
        return counted(work) if isinstance(work, GeneratorType) else work

    monkeypatch.setattr(module, "handle", counting)
    wire.ask(request, version)
    return pauses[0]


@pytest.mark.parametrize(("module", "request_", "version"), NAMED, ids=name_of)
def test_there_is_a_pause_for_everything_that_is_named(wire, monkeypatch, module, request_, version):
    assert pauses_of(module, monkeypatch, wire, request_, version) >= COUNT


@pytest.mark.parametrize(("module", "request_", "version", "least"), AGAIN, ids=name_of)
def test_there_is_a_pause_for_everything_that_is_named_again(wire, monkeypatch, module, request_, version, least):
    """Also where it is handled once: finding out what is the same is work, too."""
    assert pauses_of(module, monkeypatch, wire, request_, version) >= least


@pytest.mark.parametrize(("module", "request_", "version", "least"), ALL, ids=name_of)
def test_there_is_a_pause_for_everything_there_is(wire, monkeypatch, module, request_, version, least):
    create(wire, *(wanted(f"topic-{number}", PARTITIONS) for number in range(TOPICS)))
    assert pauses_of(module, monkeypatch, wire, request_, version) >= least


def test_settings_of_many_topics_are_answered_up_to_so_many_bytes(wire, monkeypatch):
    monkeypatch.setattr(describe_configs, "MOST_BYTES", 30_000)
    create(wire, *(wanted(f"topic-{number}") for number in range(TOPICS)))
    resource = DescribeConfigsRequest.Resource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=2, resource_name=f"topic-{number}", configuration_keys=None) for number in range(TOPICS)
        ],
        include_documentation=True,
    )
    results = wire.ask(request, 4).results
    codes = [result.error_code for result in results]
    answered = codes.count(0)
    assert 1 < answered < TOPICS
    assert codes == [0] * answered + [42] * (TOPICS - answered)
    assert results[-1].error_message == "the settings asked for take more than 0 MB; ask for fewer at once"


def test_resource_with_more_settings_than_there_are(wire):
    """They would be looked at in one piece."""
    create(wire, wanted("t"))
    config = AlterConfigsRequest.Resource.Config(name="retention.ms", value="1")
    (result,) = wire.ask(
        AlterConfigsRequest(
            resources=[AlterConfigsRequest.Resource(resource_type=2, resource_name="t", configs=[config] * 1_001)]
        ),
        2,
    ).responses
    assert (result.error_code, result.error_message) == (42, "1001 settings of one resource; at most 1000 are taken")


def test_entity_of_many_parts_is_refused_in_pieces(wire, monkeypatch):
    """It was sorted, as a megabyte of them takes 40 ms."""
    entry = Quotas(
        entity=[Quotas.Entity(entity_type="client-id", entity_name=f"client-{number % 7}") for number in range(20_000)],
        ops=[Quotas.Op(key="producer_byte_rate", value=5.0)],
    )
    assert pauses_of(alter_client_quotas, monkeypatch, wire, AlterClientQuotasRequest(entries=[entry]), 1) >= 200
    answers = wire.ask(AlterClientQuotasRequest(entries=[entry]), 1).entries
    assert [(answer.error_code, len(answer.entity)) for answer in answers] == [(42, 20_000)]
    assert answers[0].error_message == "the entity has 20000 parts, at most 100 are looked at; name each entity type once"
