"""Behaviours of clients that broke other Kafka-compatible brokers, 31 to 50: groups, offsets, topics, limits.

The number of each is in its name. The longer stories of 38 to 42, 44, 47 and 50, with real clients, are in
`test_admin_broke_others`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from milepost.broker.broker import Broker
from milepost.protocol import frames
from milepost.protocol.messages import (
    ConsumerGroupHeartbeatRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from tests.broker.conftest import Brokers
from tests.broker.on_loop import on_loop
from tests.broker.talking import (
    NOW,
    SMALL,
    TOPIC,
    batch,
    commit,
    committed,
    fetch,
    join,
    join_request,
    offset_at,
    produce,
    produce_request,
    sync_request,
    values,
)
from tests.broker.topics import create, metadata, wanted
from tests.broker.wire import Wire


@pytest.fixture
def broker(brokers: Brokers) -> Broker:
    """With small internal topics: most of the tests make them."""
    return brokers.start(SMALL)


@pytest.fixture
def topic(wire: Wire) -> bytes:
    """Its id."""
    (topic_id,) = create(wire, wanted(TOPIC))
    return topic_id


@pytest.fixture
def wires(broker) -> Iterator[list[Wire]]:
    """Two more connections: a member that waits blocks its own."""
    wires = [Wire(broker.bootstrap_servers) for _ in range(2)]
    yield wires
    for wire in wires:
        wire.close()


# Groups.


def send(wire: Wire, key: int, version: int, request: object) -> None:
    wire.socket.sendall(frames.encode_request(key, version, 1, "member", request))


def together(wires: list[Wire], group: str) -> list:
    """Two members that join at the same time: their answers, of the same generation."""
    names = [wire.ask(join_request(group), 5).member_id for wire in wires]
    joined: list = []
    for wire, name in zip(wires, names, strict=True):
        send(wire, 11, 5, join_request(group, name))
    # Whoever was first may have had a generation of its own before the second came: it hears so, and joins again.
    first = frames.decode_response(11, 5, wires[0].read_frame())[1]
    if first.generation_id == 1 and len(first.members) == 1:
        send(wires[0], 11, 5, join_request(group, names[0]))
        first = frames.decode_response(11, 5, wires[0].read_frame())[1]
    joined = [first, frames.decode_response(11, 5, wires[1].read_frame())[1]]
    assert [answer.error_code for answer in joined] == [0, 0]
    assert joined[0].generation_id == joined[1].generation_id
    return joined


def test_31_every_member_gets_what_its_leader_gave_it_and_one_that_was_left_out_gets_nothing(wires):
    joined = together(wires, "g")
    leader = next(answer for answer in joined if answer.leader == answer.member_id)
    assert {member.member_id for member in leader.members} == {answer.member_id for answer in joined}
    for wire, answer in zip(wires, joined, strict=True):
        given = {leader.member_id: b"everything"} if answer is leader else None
        send(wire, 14, 3, sync_request("g", answer, given))
    synced = [frames.decode_response(14, 3, wire.read_frame())[1] for wire in wires]
    expected = [b"everything" if answer is leader else b"" for answer in joined]
    assert [(answer.error_code, answer.assignment) for answer in synced] == [(0, given) for given in expected]


def test_32_members_that_join_at_the_same_time_stay_members(wires):
    for group in ("g", "h", "i"):
        joined = together(wires, group)
        for wire, answer in zip(wires, joined, strict=True):
            assignments = {member.member_id: b"some" for member in answer.members}
            send(wire, 14, 3, sync_request(group, answer, assignments))
        assert [frames.decode_response(14, 3, wire.read_frame())[1].error_code for wire in wires] == [0, 0]
        for wire, answer in zip(wires, joined, strict=True):
            beat = HeartbeatRequest(group_id=group, generation_id=answer.generation_id, member_id=answer.member_id)
            assert wire.ask(beat, 3).error_code == 0


@pytest.mark.parametrize("version", range(7))
def test_33_new_group_has_a_coordinator(wire, version):
    keys = {"key": "never seen"} if version < 4 else {"coordinator_keys": ["never seen"]}
    answer = wire.ask(FindCoordinatorRequest(**keys), version)
    found = answer if version < 4 else answer.coordinators[0]
    assert (found.error_code, found.node_id) == (0, 0)
    assert f"{found.host}:{found.port}".startswith("127.0.0.1:")


def test_34_several_coordinators_at_once_from_version_4_and_one_before(wire):
    answer = wire.ask(FindCoordinatorRequest(coordinator_keys=["a", "b", "c"]), 4)
    assert [(found.key, found.error_code, found.node_id) for found in answer.coordinators] == [(key, 0, 0) for key in "abc"]
    assert wire.ask(FindCoordinatorRequest(key="a"), 3).node_id == 0


def test_35_offsets_are_there_with_the_first_answer_after_a_start(brokers):
    """A broker that still loads them says so (14); one that answers nothing sends consumers back to the beginning."""
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted(TOPIC))
        assert commit(wire, "g", 42) == 0
        never = committed(wire, "never")
        assert (never.error_code, never.committed_offset) == (0, -1)
    brokers.stop(broker)
    with Wire(brokers.start().bootstrap_servers) as wire:
        assert committed(wire, "g").committed_offset == 42


def test_36_metadata_of_a_commit_comes_back(wire, topic):
    for text in ("where I was", "é中", ""):
        assert commit(wire, "g", 1, text) == 0
        assert committed(wire, "g").metadata == text
    assert commit(wire, "g", 1, None) == 0
    assert committed(wire, "g").metadata == ""


# Offsets and topics.


@pytest.mark.parametrize("version", range(1, 12))
def test_37_offset_for_a_time_has_the_time_of_its_record(wire, topic, version):
    produce(wire, batch(b"a", b"b", b"c"))
    for asked, expected in ((0, (0, NOW)), (NOW + 1, (1, NOW + 1)), (NOW + 2, (2, NOW + 2)), (NOW + 3, (-1, -1))):
        found = offset_at(wire, asked, version=version)
        assert (found.offset, found.timestamp) == expected


@pytest.mark.parametrize("version", [1, 3, 4, 9, 13])
def test_38_topic_that_is_asked_for_is_made(wire, version):
    (found,) = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="new")]), version).topics
    assert (found.error_code, len(found.partitions)) == (0, 1)
    assert produce(wire, batch(b"v"), topic="new").error_code == 0


def test_39_topic_has_settings(wire, topic):
    resource = DescribeConfigsRequest.Resource(resource_type=2, resource_name=TOPIC, configuration_keys=None)
    for version in range(1, 5):
        (result,) = wire.ask(DescribeConfigsRequest(resources=[resource]), version).results
        assert result.error_code == 0
        assert {"cleanup.policy", "max.message.bytes", "retention.ms", "segment.bytes"} <= {row.name for row in result.configs}


def test_40_growth_has_a_result(wire, topic):
    asked = CreatePartitionsRequest.Topic(name=TOPIC, count=3, assignments=None)
    for version in range(4):
        asked.count += 1
        results = wire.ask(CreatePartitionsRequest(topics=[asked], timeout_ms=1000), version).results
        assert [(row.name, row.error_code) for row in results] == [(TOPIC, 0)]
    assert len(metadata(wire, TOPIC)[0].partitions) == 7


def test_41_limits_of_a_topic_hold(wire):
    create(wire, wanted("small", max_message_bytes="100"), wanted("state", cleanup_policy="compact"))
    assert produce(wire, batch(b"x" * 200), topic="small").error_code == 10
    assert produce(wire, batch(b"v", key=None), topic="state").error_code == 87
    assert produce(wire, batch(b"v"), topic="state").error_code == 0


def test_42_append_and_subtract_change_a_list_and_nothing_else(wire, topic):
    def alter(operation: int, value: str) -> int:
        resource = IncrementalAlterConfigsRequest.Resource
        config = resource.Config(name="cleanup.policy", config_operation=operation, value=value)
        request = IncrementalAlterConfigsRequest(resources=[resource(resource_type=2, resource_name=TOPIC, configs=[config])])
        return wire.ask(request, 1).responses[0].error_code

    def policy() -> str | None:
        asked = DescribeConfigsRequest.Resource(resource_type=2, resource_name=TOPIC, configuration_keys=["cleanup.policy"])
        return wire.ask(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs[0].value

    assert (alter(2, "compact"), policy()) == (0, "delete,compact")
    assert (alter(3, "delete"), policy()) == (0, "compact")
    assert produce(wire, batch(b"v")).error_code == 0


# Connections and limits.


def test_43_acks_0_is_not_answered(wire, topic):
    request = frames.encode_request(0, 9, 99, "x", produce_request(batch(b"v"), acks=0))
    wire.socket.sendall(request * 10)
    # The next answer is that of the next request.
    assert len(values(fetch(wire).records)) == 10


def test_44_limit_of_a_partition_above_that_of_the_answer(wire):
    create(wire, wanted(TOPIC, partitions=2))
    for _ in range(3):
        produce(wire, batch(b"x" * 1000))
    asked = FetchRequest.Topic
    parts = [asked.Partition(partition=number, partition_max_bytes=1 << 30) for number in (1, 0)]
    request = FetchRequest(min_bytes=1, max_bytes=1, topics=[asked(topic=TOPIC, partitions=parts)])
    found = wire.ask(request, 11).responses[0].partitions
    assert [(part.error_code, len(values(part.records))) for part in found] == [(0, 0), (0, 1)]


def test_45_idle_connection_is_closed_with_a_farewell(brokers):
    broker = brokers.start({"connections.max.idle.ms": "600000"})
    with Wire(broker.bootstrap_servers) as idle, Wire(broker.bootstrap_servers) as busy:
        for _ in range(2):
            assert busy.ask(MetadataRequest(topics=[]), 12).brokers
            let_time_pass(broker, 400)
        assert idle.socket.recv(1) == b""
        assert busy.ask(MetadataRequest(topics=[]), 12).brokers


def let_time_pass(broker: Broker, seconds: float) -> None:
    """As far as the connections know."""

    def pass_it() -> None:
        for channel in broker.server.processors[0].channels.values():
            channel.last_active -= seconds

    on_loop(broker, pass_it)


def test_46_group_is_listed_once(wire, topic):
    for _ in range(2):
        assert commit(wire, "g", 1) == 0
    join(wire, "g")
    for version in range(6):
        assert [group.group_id for group in wire.ask(ListGroupsRequest(), version).groups] == ["g"]


def test_47_topic_that_is_made_again_has_another_id_and_the_old_one_is_unknown(wire, topic):
    wire.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000), 5)
    (again,) = create(wire, wanted(TOPIC))
    assert again != topic
    part = FetchRequest.Topic.Partition(partition=0, partition_max_bytes=100)
    topics = [FetchRequest.Topic(topic_id=each, partitions=[part]) for each in (topic, again)]
    answer = wire.ask(FetchRequest(max_bytes=100, topics=topics), 13)
    assert [(each.topic_id, each.partitions[0].error_code) for each in answer.responses] == [(topic, 100), (again, 0)]
    assert metadata(wire, TOPIC)[0].topic_id == again


def test_48_whoever_asks_for_offsets_is_not_sent_elsewhere(wire, topic):
    """The one broker leads everything: NOT_LEADER_OR_FOLLOWER never comes, whatever replica a client says it is."""
    asked = ListOffsetsRequest.Topic
    topics = [asked(name=TOPIC, partitions=[asked.Partition(partition_index=0, timestamp=-1)])]
    for version in range(1, 12):
        for replica in (-1, -2, 1):
            found = wire.ask(ListOffsetsRequest(replica_id=replica, topics=topics), version).topics[0].partitions[0]
            assert (found.error_code, found.offset) == (0, 0)


def test_49_heartbeat_to_a_group_that_is_gone_is_an_unknown_member(wire, topic):
    """69 would be fatal in librdkafka 2.15; 25 makes it join again."""
    beat = ConsumerGroupHeartbeatRequest(group_id="gone", member_id="m", member_epoch=5, topic_partitions=[])
    assert wire.ask(beat, 1).error_code == 25
    for epoch in (-1, 3):
        beat.member_epoch = epoch
        assert wire.ask(beat, 1).error_code in (0, 25, 110)


def test_50_topic_of_a_tool_stays_valid(brokers):
    broker = brokers.start()
    for _ in range(3):
        with Wire(broker.bootstrap_servers) as wire:
            (found,) = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="connect-offsets")]), 12).topics
            assert (found.error_code, found.name, found.is_internal) == (0, "connect-offsets", False)
            assert produce(wire, batch(b"v"), topic="connect-offsets").error_code == 0
        brokers.stop(broker)
        broker = brokers.start()
