"""Whom a cluster asks, and that it follows leaders, coordinators and controllers when they move; every retry has an end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.client.addresses import Address
from milepost.client.cluster import Cluster
from milepost.client.offsets import LATEST, list_offsets
from milepost.client.retrying import failed
from milepost.errors import BrokerUnavailable, MalformedMessage, RequestFailed
from milepost.protocol.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    FindCoordinatorResponse,
    ListOffsetsResponse,
    MetadataResponse,
)
from milepost.topic_partition import TopicPartition
from tests.client.fake_broker import CLOSE, FakeBroker, fake_brokers, metadata
from tests.client.topics import make_topic
from tests.waiting import PATIENCE

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OK = object()


@pytest.fixture
def three() -> Iterator[list[FakeBroker]]:
    with fake_brokers(3) as brokers:
        yield brokers


def everywhere(brokers: list[FakeBroker], **handlers) -> None:
    for broker in brokers:
        broker.handlers.update(handlers)


def offsets(error: int = 0, offset: int = 10, partitions=(0,)):
    """A handler of ListOffsets."""
    Topic = ListOffsetsResponse.Topic

    def answer(version: int, request: object) -> ListOffsetsResponse:
        rows = [
            Topic.Partition(partition_index=number, error_code=error, offset=-1 if error else offset) for number in partitions
        ]
        return ListOffsetsResponse(topics=[Topic(name="t", partitions=rows)])

    return answer


# Bootstrap.


def test_second_bootstrap_server_is_asked_when_the_first_is_gone(three, cluster_of):
    three[0].close()
    everywhere(three, Metadata=lambda version, request: metadata(three, {}))
    assert set(cluster_of(*three[:2]).refresh(()).nodes) == {0, 1, 2}


def test_no_bootstrap_server_answers_and_all_are_named_at_once(three, cluster_of, pauses):
    for broker in three:
        broker.close()
    with pytest.raises(BrokerUnavailable) as caught:
        cluster_of(*three).refresh(None)
    assert all(f"no broker answers at {broker.address}: connection refused" in str(caught.value) for broker in three)
    assert pauses == []


def test_brokers_heard_of_are_asked_when_the_bootstrap_server_goes(three, cluster_of):
    everywhere(three, Metadata=lambda version, request: metadata(three, {}))
    cluster = cluster_of(three[0])
    cluster.refresh(())
    three[0].handlers["Metadata"] = lambda version, request: CLOSE
    three[0].close()
    assert set(cluster.refresh(()).nodes) == {0, 1, 2}


# Leaders.


def test_each_leader_is_asked_once_for_its_partitions(three, cluster_of):
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [1, 2, 1]}))
    three[1].handlers["ListOffsets"] = offsets(offset=5, partitions=(0, 2))
    three[2].handlers["ListOffsets"] = offsets(offset=7, partitions=(1,))
    found = list_offsets(cluster_of(three[0]), {TopicPartition("t", number): LATEST for number in range(3)})
    assert {partition.partition: place.offset for partition, place in found.items()} == {0: 5, 1: 7, 2: 5}
    assert (three[1].names(), three[2].names()) == (["ListOffsets"], ["ListOffsets"])


@pytest.mark.parametrize("error", [5, 6, 74, 75])
def test_leader_that_moved_is_looked_up_again(three, cluster_of, pauses, error):
    leaders = iter([1, 2])
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [next(leaders)]}))
    three[1].handlers["ListOffsets"] = offsets(error)
    three[2].handlers["ListOffsets"] = offsets(offset=3)
    assert list_offsets(cluster_of(three[0]), {T0: LATEST})[T0].offset == 3
    assert pauses == [0.05]


def test_leader_that_went_away_is_looked_up_again(three, cluster_of):
    leaders = iter([1, 2])
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [next(leaders)]}))
    three[1].handlers["ListOffsets"] = lambda version, request: CLOSE
    three[2].handlers["ListOffsets"] = offsets(offset=3)
    assert list_offsets(cluster_of(three[0]), {T0: LATEST})[T0].offset == 3


def test_partition_without_a_leader_is_waited_for_and_then_told(three, cluster_of, pauses):
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [-1]}))
    with pytest.raises(RequestFailed, match=r"^t-0 has no leader now$"):
        list_offsets(cluster_of(three[0]), {T0: LATEST})
    assert len(pauses) == 9
    assert sum(pauses) < 6


def test_what_succeeded_is_not_asked_for_again(three, cluster_of):
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [1, 2]}))
    three[1].handlers["ListOffsets"] = offsets(offset=5)
    answers = iter([offsets(6, partitions=(1,)), offsets(offset=7, partitions=(1,))])
    three[2].handlers["ListOffsets"] = lambda version, request: next(answers)(version, request)
    found = list_offsets(cluster_of(three[0]), {T0: LATEST, T1: LATEST})
    assert {partition.partition: place.offset for partition, place in found.items()} == {0: 5, 1: 7}
    assert (three[1].names(), three[2].names()) == (["ListOffsets"], ["ListOffsets", "ListOffsets"])


def test_error_that_will_not_pass_is_raised_at_once(three, cluster_of, pauses):
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [1]}))
    three[1].handlers["ListOffsets"] = offsets(29)
    with pytest.raises(RequestFailed, match=r"offsets of t-0: the broker answers TOPIC_AUTHORIZATION_FAILED \(29\)"):
        list_offsets(cluster_of(three[0]), {T0: LATEST})
    assert pauses == []


def test_partition_that_an_answer_leaves_out_is_an_error(three, cluster_of):
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [1, 1]}))
    three[1].handlers["ListOffsets"] = offsets()
    with pytest.raises(MalformedMessage, match=f"{three[1].address} left t-1 out of its answer"):
        list_offsets(cluster_of(three[0]), {T0: LATEST, T1: LATEST})


def test_failure_at_one_leader_leaves_no_answer_behind_at_another(three, cluster_of):
    """An answer nobody read would be taken for the answer to the next request on that connection."""
    everywhere(three, Metadata=lambda version, request: metadata(three, {"t": [1, 2]}))
    three[1].handlers["ListOffsets"] = lambda version, request: b"\xff\xff\xff\xff"
    three[2].handlers["ListOffsets"] = offsets(offset=7, partitions=(1,))
    cluster = cluster_of(three[0])
    with pytest.raises(MalformedMessage):
        list_offsets(cluster, {T0: LATEST, T1: LATEST})
    assert list_offsets(cluster, {T1: LATEST})[T1].offset == 7
    assert three[2].connections == 2


# Topics.


def test_topic_that_is_not_there_is_told_after_a_few_tries(three, cluster_of, pauses):
    unknown = MetadataResponse(topics=[MetadataResponse.Topic(name="t", error_code=3)])
    everywhere(three, Metadata=lambda version, request: unknown)
    with pytest.raises(RequestFailed, match=r"^topic t: the broker answers UNKNOWN_TOPIC_OR_PARTITION \(3\): there are no topics$"):
        cluster_of(three[0]).topic("t")
    assert len(pauses) == 2


def test_topic_that_comes_into_being_is_waited_for(three, cluster_of):
    errors = iter([3, 5])

    def answer(version: int, request: object) -> MetadataResponse:
        error = next(errors, 0)
        if error:
            return MetadataResponse(topics=[MetadataResponse.Topic(name="t", error_code=error)])
        return metadata(three, {"t": [0]})

    everywhere(three, Metadata=answer)
    assert len(cluster_of(three[0]).topic("t", may_create=True).partitions) == 1
    assert [request.allow_auto_topic_creation for _, _, request in three[0].asked] == [True, True, True]


def test_illegal_topic_name_is_not_tried_again(three, cluster_of, pauses):
    everywhere(
        three, Metadata=lambda version, request: MetadataResponse(topics=[MetadataResponse.Topic(name="t", error_code=17)])
    )
    with pytest.raises(RequestFailed, match="INVALID_TOPIC_EXCEPTION"):
        cluster_of(three[0]).topic("t", may_create=True)
    assert pauses == []


# Coordinators, the controller, one broker.


def coordinator(broker: FakeBroker, node_id: int, error: int = 0):
    def answer(version: int, request) -> FindCoordinatorResponse:
        place = {"node_id": node_id, "host": broker.address.host, "port": broker.address.port, "error_code": error}
        if version < 4:
            return FindCoordinatorResponse(**place)
        return FindCoordinatorResponse(
            coordinators=[FindCoordinatorResponse.Coordinator(key=key, **place) for key in request.coordinator_keys]
        )

    return answer


@pytest.mark.parametrize("versions", [(0, 6), (0, 3)])
def test_coordinator_that_moved_is_looked_up_again(three, cluster_of, versions):
    for broker in three:
        broker.versions["FindCoordinator"] = versions
    everywhere(three, Metadata=lambda version, request: metadata(three, {}))
    answers = iter([coordinator(three[1], 1, error=15), coordinator(three[1], 1), coordinator(three[2], 2)])
    three[0].handlers["FindCoordinator"] = lambda version, request: next(answers)(version, request)
    cluster = cluster_of(three[0])
    cluster.refresh(())
    visited: list[Address] = []

    def work(connection) -> object:
        visited.append(connection.address)
        if connection.address == three[1].address:
            raise failed("group g", 16)
        return OK

    # The second question may go over the connection to the old coordinator, which answers the same.
    three[1].handlers["FindCoordinator"] = coordinator(three[2], 2)
    assert cluster.on_coordinator("g", work) is OK
    assert visited == [three[1].address, three[2].address]


def test_coordinator_is_looked_up_once(three, cluster_of):
    everywhere(three, FindCoordinator=coordinator(three[1], 1))
    cluster = cluster_of(three[0])
    assert [cluster.on_coordinator("g", lambda connection: connection.address) for _ in range(2)] == [three[1].address] * 2
    assert three[0].names() == ["FindCoordinator"]


def test_controller_that_moved_is_looked_up_again(three, cluster_of):
    controllers = iter([1, 2])
    everywhere(three, Metadata=lambda version, request: metadata(three, {}, controller=next(controllers)))
    visited: list[Address] = []

    def work(connection) -> object:
        visited.append(connection.address)
        if len(visited) == 1:
            raise failed("topic t", 41)
        return OK

    assert cluster_of(three[0]).on_controller(work) is OK
    assert visited == [three[1].address, three[2].address]


def test_cluster_that_names_no_controller_is_asked_itself(three, cluster_of):
    everywhere(three, Metadata=lambda version, request: metadata(three[:1], {}, controller=-1))
    assert cluster_of(three[0]).on_controller(lambda connection: connection.address) == three[0].address


def test_broker_that_does_not_exist_is_named_with_those_that_do(three, cluster_of):
    everywhere(three, Metadata=lambda version, request: metadata(three, {}))
    with pytest.raises(RequestFailed, match=r"^there is no broker 7; the cluster has 0, 1, 2$"):
        cluster_of(three[0]).on_node(7, lambda connection: OK)


def test_errors_that_pass_are_retried_until_there_are_no_more_attempts(three, cluster_of, pauses):
    everywhere(three, Metadata=lambda version, request: metadata(three, {}))
    attempts = []

    def work(connection) -> None:
        attempts.append(1)
        raise failed("group g", 14)

    with pytest.raises(RequestFailed, match="COORDINATOR_LOAD_IN_PROGRESS"):
        cluster_of(three[0]).on_any(work)
    assert (len(attempts), len(pauses)) == (10, 9)


def test_lost_connection_is_made_again(three, cluster_of):
    everywhere(three, Metadata=lambda version, request: metadata(three, {}))
    answers = iter([CLOSE, CLOSE, DescribeClusterResponse(cluster_id="c")])
    three[0].handlers["DescribeCluster"] = lambda version, request: next(answers)
    cluster = cluster_of(three[0])
    cluster.refresh(())
    assert cluster.on_node(0, lambda connection: connection.ask(DescribeClusterRequest())).cluster_id == "c"
    assert three[0].connections == 3


# Against a real broker.


def test_topic_of_a_broker_is_described(broker, cluster: Cluster):
    make_topic(cluster, "described", 3)
    made = broker.cluster.topics["described"]
    topic = cluster.topic("described")
    assert [(part.partition, part.leader_id, part.replicas) for part in topic.partitions] == [
        (0, 0, (0,)),
        (1, 0, (0,)),
        (2, 0, (0,)),
    ]
    assert (topic.topic_id, topic.topic_id_text) == (made.topic_id, made.topic_id_text)


def test_broker_that_comes_back_at_the_same_address_is_found_again(tmp_path):
    settings = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
    with Life(AloneBroker(settings)) as first:
        address = first.bootstrap_servers
        cluster = Cluster(address, timeout=PATIENCE)
        make_topic(cluster, "kept", 2)
        assert len(cluster.topic("kept").partitions) == 2
    with Life(AloneBroker({**settings, "listeners": f"PLAINTEXT://{address}"})), cluster:
        assert list_offsets(cluster, {TopicPartition("kept", 1): LATEST})[TopicPartition("kept", 1)].offset == 0
