"""The notation of the tables."""

from __future__ import annotations

from importlib import import_module

import pytest

from milepost.protocol.apis import APIS
from milepost.protocol.schema import ANY_VERSION, FRESH, ZERO_UUID, Field, blocks, class_name, parse_block, parse_versions

BLOCK = """\
Example
  request
    name: string? 3+ = null, acks: int16
    topics: []?1+ 0-12
      topic_id: uuid 10+ ~, partitions: []int32
      leader: {} 11+ #0
        epoch: int32 = -1
    timeout_ms: int32 = 60000
  response
    error_code: int16"""


def field(text: str) -> Field:
    return Field(text, "Parent", ANY_VERSION)


def test_block_becomes_a_request_and_a_response():
    request, response = parse_block(BLOCK)
    assert (request.name, response.name) == ("ExampleRequest", "ExampleResponse")
    assert [field.name for field in request.fields] == ["name", "acks", "topics", "timeout_ms"]
    assert [field.name for field in response.fields] == ["error_code"]


def test_struct_is_named_by_its_field_inside_the_one_around_it_and_shares_its_versions():
    topics = parse_block(BLOCK)[0].fields[2].struct
    assert topics is not None
    assert topics.name == "ExampleRequest.Topic"
    assert [(field.name, field.versions) for field in topics.fields] == [
        ("topic_id", (10, 12)),
        ("partitions", (0, 12)),
        ("leader", (11, 12)),
    ]
    leader = topics.fields[2].struct
    assert leader is not None
    assert (leader.name, leader.fields[0].default) == ("ExampleRequest.Topic.Leader", -1)


@pytest.mark.parametrize(
    ("text", "versions"), [("3+", (3, 32767)), ("0-12", (0, 12)), ("4", (4, 4)), (None, (0, 32767))], ids=str
)
def test_versions(text, versions):
    assert parse_versions(text) == versions


@pytest.mark.parametrize(
    ("text", "default"),
    [
        ("a: int32", 0),
        ("a: int32 = -1", -1),
        ("a: bool", False),
        ("a: bool 4+ = true", True),
        ("a: string", ""),
        ("a: string?", ""),
        ("a: string? = null", None),
        ("a: bytes", b""),
        ("a: uuid", ZERO_UUID),
        ("a: float64", 0.0),
        ("a: []int32", FRESH),
        ("a: []? = null", None),
        ("a: {}", FRESH),
        ("a: {} 10+ #0", None),
    ],
)
def test_default(text, default):
    assert field(text).default == default


def test_field_that_may_be_null_in_some_versions():
    name = field("name: string?10-12 2+")
    assert [version for version in range(14) if name.is_nullable_in(version)] == [10, 11, 12]
    assert not name.exists_in(1)
    assert name.exists_in(2)


@pytest.mark.parametrize("text", ["a", "a: int99", "a: int32 3+ =", "a: int32 ~ 3+", "a: struct", "a:int32"])
def test_mistake_in_the_table_is_named(text):
    with pytest.raises(ValueError, match=r"Parent.*a"):
        field(text)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("topics", "Topic"),
        ("entries", "Entry"),
        ("acknowledgement_batches", "AcknowledgementBatch"),
        ("status", "Status"),
        ("topic_data", "TopicData"),
        ("responses", "Response"),
        ("v3_and_below_topics", "V3AndBelowTopic"),
    ],
)
def test_class_of_an_array_is_the_singular(name, expected):
    assert class_name(name, is_array=True) == expected


def test_tables_hold_the_apis_of_the_coverage_table_and_no_others():
    families = {api.family for api in APIS}
    found = {name: family for family in families for name in blocks(import_module(f"milepost.protocol.tables.{family}").TABLE)}
    assert found == {api.name: api.family for api in APIS}
    assert len(found) == len(APIS) == 83


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_tagged_fields_exist_in_flexible_versions_only_and_each_tag_once(api):
    table = blocks(import_module(f"milepost.protocol.tables.{api.family}").TABLE)
    waiting = list(parse_block(table[api.name]))
    while waiting:
        struct = waiting.pop()
        tags = [field.tag for field in struct.fields if field.tag is not None]
        assert tags == sorted(set(tags))
        assert all(field.versions[0] >= api.flexible for field in struct.fields if field.tag is not None)
        assert len({field.name for field in struct.fields}) == len(struct.fields)
        waiting += struct.structs()
