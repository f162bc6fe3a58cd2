"""The classes of messages: made with keywords, defaults where nothing was said or read, compared by value."""

from __future__ import annotations

import pytest

from milepost.protocol import generated, messages, stubs
from milepost.protocol.messages import (
    ConsumerGroupDescribeResponse,
    FetchRequest,
    HeartbeatResponse,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
)


def test_what_is_not_said_is_at_kafkas_default():
    request = FetchRequest()
    assert (request.replica_id, request.max_bytes, request.session_epoch) == (-1, 2147483647, -1)
    assert (request.topics, request.rack_id, request.cluster_id) == ([], "", None)
    assert request.unknown_tags == b""
    assert MetadataRequest().allow_auto_topic_creation is True
    assert FetchRequest.Topic.Partition().high_watermark == 9223372036854775807


def test_two_messages_never_share_a_list():
    one, other = ProduceRequest(), ProduceRequest()
    one.topic_data.append(ProduceRequest.TopicData(name="t"))
    assert other.topic_data == []


def test_null_list_is_not_an_empty_one():
    assert MetadataRequest(topics=None).topics is None
    assert MetadataRequest(topics=None) != MetadataRequest()


def test_tagged_struct_that_was_not_sent_is_none_and_a_plain_one_has_defaults():
    assert FetchRequest().replica_state is None
    assert ConsumerGroupDescribeResponse.Group.Member().assignment == ConsumerGroupDescribeResponse.Group.Member.Assignment()


def test_field_of_another_version_reads_as_its_default():
    body, _ = generated.response_decoder(12, 0)(bytes.fromhex("001b"), 0)
    assert body == HeartbeatResponse(error_code=27)
    assert body.throttle_time_ms == 0


def test_decoded_message_can_be_added_to():
    body, _ = generated.request_decoder(3, 1)(bytes(4), 0)
    body.topics.append(MetadataRequest.Topic(name="t"))
    assert body.topics == [MetadataRequest.Topic(name="t")]


def test_unknown_field_is_a_mistake_when_made_and_when_read():
    with pytest.raises(TypeError, match="eror_code"):
        HeartbeatResponse(eror_code=27)
    with pytest.raises(AttributeError, match=r"HeartbeatResponse has no field 'eror_code'; it has throttle_time_ms, error_code"):
        _ = HeartbeatResponse().eror_code
    with pytest.raises(AttributeError):
        HeartbeatResponse().eror_code = 27


def test_messages_of_different_kinds_are_not_equal_and_none_has_a_hash():
    assert HeartbeatResponse() != ProduceRequest()
    with pytest.raises(TypeError, match="unhashable"):
        hash(HeartbeatResponse())


def test_shown_without_what_is_at_its_default():
    answer = ProduceResponse(responses=[ProduceResponse.Response(name="t")], throttle_time_ms=7)
    assert repr(answer) == "ProduceResponse(responses=[ProduceResponse.Response(name='t')], throttle_time_ms=7)"


def test_class_knows_where_it_lives():
    cls = ProduceResponse.Response.PartitionResponse
    assert f"{cls.__module__}.{cls.__qualname__}" == "milepost.protocol.messages.ProduceResponse.Response.PartitionResponse"
    assert ProduceResponse is messages.ProduceResponse


def test_message_that_does_not_exist():
    with pytest.raises(AttributeError, match="no message 'ProduceRequst'"):
        _ = messages.ProduceRequst
    with pytest.raises(AttributeError, match="no message 'Produce'"):
        _ = messages.Produce


def test_stub_for_type_checkers_says_what_the_tables_say():
    with open(messages.__file__ + "i", encoding="utf-8") as file:
        assert file.read() == stubs.stub(), "run: python -m milepost.protocol.stubs > src/milepost/protocol/messages.pyi"
