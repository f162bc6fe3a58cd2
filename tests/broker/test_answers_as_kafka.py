"""Answers at the edges of requests: each code and number is what Kafka 4.3.0 answered to the same request on the same data."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.protocol.messages import (
    DeleteGroupsRequest,
    DescribeProducersRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    OffsetDeleteRequest,
)
from tests.broker.transaction_talk import Talk

SETTINGS = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}


@pytest.fixture
def talk(brokers) -> Iterator[Talk]:
    """Topic `m`: in partition 0 three committed records (timestamps 1000 to 1002), the marker at 3, and one record in a transaction."""
    talk = Talk(brokers.start(SETTINGS).bootstrap_servers)
    talk.topic("m")
    talk.coordinators("first", "second", "readers")
    producer = talk.init("first")
    talk.produce("first", producer, "m-0", 0, count=3)
    producer = talk.end("first", producer, True)
    talk.produce("first", producer, "m-0", 0)
    yield talk
    talk.close()


# ListOffsets.


def offset_of(talk: Talk, version: int, timestamp: int, partition: int = 0, isolation: int = 0) -> tuple[int, int, int]:
    """(error code, offset, leader epoch)."""
    asked = ListOffsetsRequest.Topic
    part = asked.Partition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[asked(name="m", partitions=[part])])
    if version >= 2:
        request.isolation_level = isolation
    found = talk.wire.ask(request, version).topics[0].partitions[0]
    return found.error_code, found.offset, found.leader_epoch


UNSUPPORTED = (35, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "answer"),
    [(-3, 7, (0, 3, 0)), (-4, 8, (0, 0, 0)), (-5, 9, (0, -1, -1)), (-6, 11, (0, -1, -1)), (-7, 99, None)],
)
def test_a_special_value_is_not_known_before_its_version(talk, timestamp, since, answer):
    for version in range(1, 12):
        known = version >= since
        assert offset_of(talk, version, timestamp) == (answer if known else UNSUPPORTED), version
        assert offset_of(talk, version, timestamp, partition=7) == ((3, -1, -1) if known else UNSUPPORTED), version


@pytest.mark.parametrize(
    ("timestamp", "isolation", "offset"),
    [(-1, 0, 5), (-1, 1, 4), (-2, 0, 0), (-2, 1, 0), (1001, 0, 1), (1001, 1, 1), (5000, 0, 3)],
)
@pytest.mark.parametrize("version", range(1, 12))
def test_others_are_known_in_every_version_and_the_epoch_from_4_on(talk, version, timestamp, isolation, offset):
    if version == 1 and isolation:
        isolation, offset = 0, 5 if timestamp == -1 else offset
    assert offset_of(talk, version, timestamp, isolation=isolation) == (0, offset, 0 if version >= 4 else -1)


# ListTransactions.


@pytest.mark.parametrize(
    ("version", "filters", "answer"),
    [
        (0, {}, ([], ["first", "second"])),
        (0, {"state_filters": ["Ongoing"]}, ([], ["first"])),
        (0, {"state_filters": ["Ongoing", "nope"]}, (["nope"], ["first"])),
        (0, {"state_filters": ["nope"]}, (["nope"], [])),
        (0, {"producer_id_filters": [123456]}, ([], [])),
        (1, {"duration_filter": 100_000_000}, ([], ["second"])),
        (2, {"transactional_id_pattern": "fir.*"}, ([], ["first"])),
        (2, {"transactional_id_pattern": "irst"}, ([], [])),
        (2, {"transactional_id_pattern": ""}, ([], ["first", "second"])),
    ],
)
def test_transactions_are_listed_by_all_filters_together(talk, version, filters, answer):
    talk.init("second")
    found = talk.wire.ask(ListTransactionsRequest(**filters), version)
    assert found.error_code == 0
    assert (found.unknown_state_filters, sorted(each.transactional_id for each in found.transaction_states)) == answer


def test_a_pattern_that_is_none_is_128(talk):
    assert talk.wire.ask(ListTransactionsRequest(transactional_id_pattern="("), 2).error_code == 128


# Groups.


def test_offsets_of_a_group_are_deleted_one_by_one(talk):
    second = talk.init("second")
    talk.commit_offset("second", second, "readers", "m-0", 2)
    talk.end("second", second, True)
    asked = OffsetDeleteRequest.Topic

    def delete(group: str, **topics: list[int]):
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                asked(name=name, partitions=[asked.Partition(partition_index=number) for number in numbers])
                for name, numbers in topics.items()
            ],
        )
        answer = talk.wire.ask(request, 0)
        return answer.error_code, {
            (topic.name, part.partition_index): part.error_code for topic in answer.topics for part in topic.partitions
        }

    assert delete("nope", m=[0]) == (69, {})
    assert delete("", m=[0]) == (24, {})
    assert delete("readers", m=[0, 1, 9], nope=[0]) == (0, {("m", 0): 0, ("m", 1): 0, ("m", 9): 3, ("nope", 0): 3})
    assert delete("readers", m=[0]) == (0, {("m", 0): 0})


def test_a_group_that_is_named_again_is_deleted_and_answered_once(talk):
    second = talk.init("second")
    talk.commit_offset("second", second, "readers", "m-0", 2)
    talk.end("second", second, True)
    for code in (0, 69):
        answer = talk.wire.ask(DeleteGroupsRequest(groups_names=["nope", "readers", "", "readers"]), 2)
        assert {result.group_id: result.error_code for result in answer.results} == {"nope": 69, "readers": code, "": 69}
        assert len(answer.results) == 3


# DescribeProducers.


def test_producers_of_what_is_not_there(talk):
    asked = DescribeProducersRequest.Topic
    topics = [asked(name="m", partition_indexes=[0, 9]), *(asked(name=name, partition_indexes=[0]) for name in ("nope", "a b"))]
    answer = talk.wire.ask(DescribeProducersRequest(topics=topics), 0)
    codes = {(topic.name, part.partition_index): part.error_code for topic in answer.topics for part in topic.partitions}
    assert codes == {("m", 0): 0, ("m", 9): 3, ("nope", 0): 3, ("a b", 0): 17}
