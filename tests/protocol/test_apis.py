"""The coverage table: what is served, what is listed, which header goes with which version."""

from __future__ import annotations

import subprocess
import sys

import pytest

from milepost.protocol.apis import APIS, BY_KEY, BY_NAME, NEVER
from tests.golden_wire_fixture import examples


def test_keys_rise_and_are_found_by_key_and_by_name():
    assert [api.key for api in APIS] == sorted(BY_KEY)
    assert BY_NAME["Fetch"] is BY_KEY[1]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_served_versions_are_known_ones(api):
    assert api.known[0] <= api.served[0] <= api.served[1] <= api.known[1]
    assert api.serves(api.served[0])
    assert not api.serves(api.served[1] + 1)
    assert not api.knows(api.known[1] + 1)


def recorded_answer(kafka: str) -> dict[int, tuple[int, int]]:
    """What a Kafka of that version listed when it was asked."""
    for example in examples("clients", "clients/18-ApiVersions.json"):
        if example["kafka"] == kafka and example["responseJson"]["errorCode"] == 0:
            return {row["apiKey"]: (row["minVersion"], row["maxVersion"]) for row in example["responseJson"]["apiKeys"]}
    raise LookupError(kafka)


def test_advertised_versions_are_those_that_kafka_4_3_lists():
    listed = recorded_answer("4.3.0")
    assert {key for key in listed if key not in BY_KEY} == {80}  # AddRaftVoter
    assert {key: BY_KEY[key].advertised for key in listed if key in BY_KEY} == {
        key: versions for key, versions in listed.items() if key in BY_KEY
    }


def test_all_versions_that_kafka_3_9_lists_are_known():
    listed = recorded_answer("3.9.1")
    assert {key for key in listed if key not in BY_KEY} == {80}
    assert not [key for key, ends in listed.items() if key in BY_KEY and not all(map(BY_KEY[key].knows, ends))]


def test_produce_is_listed_from_0_and_served_from_3():
    produce = BY_NAME["Produce"]
    assert produce.advertised == (0, 13)
    assert not produce.serves(2)
    assert produce.serves(3)


@pytest.mark.parametrize(
    ("name", "version", "request_header", "response_header"),
    [
        ("Produce", 8, 1, 0),
        ("Produce", 9, 2, 1),
        ("ApiVersions", 2, 1, 0),
        ("ApiVersions", 3, 2, 0),
        ("ControlledShutdown", 0, 0, 0),
        ("ControlledShutdown", 1, 1, 0),
        ("ControlledShutdown", 3, 2, 1),
        ("SaslHandshake", 1, 1, 0),
        ("ConsumerGroupHeartbeat", 0, 2, 1),
    ],
)
def test_header_versions(name, version, request_header, response_header):
    api = BY_NAME[name]
    assert api.request_header_version(version) == request_header
    assert api.response_header_version(version) == response_header


def test_apis_that_never_became_flexible():
    assert [api.name for api in APIS if api.flexible == NEVER] == ["SaslHandshake", "OffsetDelete"]


def test_import_loads_no_schema_and_makes_no_class():
    code = "import sys, milepost.protocol.apis; print(*(name for name in sys.modules if name.startswith('milepost.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["milepost._version", "milepost.protocol", "milepost.protocol.apis"]
