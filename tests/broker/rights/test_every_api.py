"""Every API that is served, asked by somebody without rights, with exactly those it needs, and with one of them missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from milepost.broker.dispatch import served_apis
from milepost.broker.rights.guards import Rights
from milepost.broker.rights.table import BETWEEN_BROKERS, GUARDS, UNGUARDED
from milepost.protocol.apis import BY_NAME
from milepost.protocol.messages import AddPartitionsToTxnRequest
from milepost.work import at_once
from tests.broker.rights.cases import CASES, CLUSTER, CODES, LISTED, TOPIC, Right
from tests.broker.rights.conftest import Closed


def codes_in(answer: Any) -> set[int]:
    """Every error code in an answer, wherever it stands."""
    found: set[int] = set()
    if hasattr(answer, "_schema"):
        for name in answer.__slots__:
            value = getattr(answer, name)
            found |= {value} - {0} if name.endswith("error_code") else codes_in(value)
    elif isinstance(answer, list):
        found = set().union(*map(codes_in, answer))
    return found


def codes(closed: Closed, name: str, version: int) -> set[int]:
    return codes_in(closed.wire.ask(CASES[name].request(version, closed.topic_id), version))


def api_of(name: str) -> str:
    return name.partition(" ")[0]


def versions_of(name: str) -> range:
    first, last = BY_NAME[api_of(name)].served
    case = CASES[name]
    return range(max(first, case.first), min(last, case.last) + 1)


ASKED = [(name, version) for name in CASES for version in versions_of(name)]


def test_every_api_that_is_served_has_a_case():
    served = {api.name for api in served_apis().values()}
    assert served == {api_of(name) for name in CASES} | LISTED | UNGUARDED & served


@pytest.mark.parametrize(("name", "version"), ASKED)
def test_without_any_right_it_is_denied_as_by_kafka(closed, name, version):
    closed.allow()
    assert codes(closed, name, version) - {55} == {CASES[name].denied}


@pytest.mark.parametrize(("name", "version"), ASKED)
def test_with_exactly_the_rights_it_needs_it_is_not_denied(closed, name, version):
    for rights in CASES[name].rights:
        closed.allow(*rights)
        assert not codes(closed, name, version) & CODES, rights


MISSING = [
    (name, rights, missing)
    for name, case in CASES.items()
    for rights in case.rights
    for missing in rights
    if not (name == "CreateTopics" and missing[1].name == "DESCRIBE_CONFIGS")
]


@pytest.mark.parametrize(
    ("name", "rights", "missing"),
    MISSING,
    ids=[f"{name}-{' '.join(each.name for each in missing)}" for name, _, missing in MISSING],
)
def test_with_one_of_its_rights_missing_it_is_denied(closed, name, rights: tuple[Right, ...], missing: Right):
    closed.allow(*(right for right in rights if right != missing))
    version = versions_of(name)[-1]
    assert codes(closed, name, version) & CODES


@pytest.mark.parametrize("name", sorted(BETWEEN_BROKERS))
def test_what_brokers_say_to_each_other_is_for_who_may_act_for_the_cluster(name):
    asked = []
    authorizer = SimpleNamespace(
        denies=lambda access, requester: asked.append(access) or "no", note_denial=lambda access, requester: None
    )
    rights = Rights(SimpleNamespace(version=0), authorizer)  # type: ignore[arg-type]
    response = at_once(GUARDS[name].handling(None, rights, lambda: pytest.fail("it was not denied")))
    assert response.error_code == CLUSTER
    assert [(access.operation.name, access.name) for access in asked] == [("CLUSTER_ACTION", "kafka-cluster")]


def test_partitions_that_a_broker_adds_to_a_transaction_are_for_who_may_act_for_the_cluster():
    authorizer = SimpleNamespace(denies=lambda access, requester: "no", note_denial=lambda access, requester: None)
    rights = Rights(SimpleNamespace(version=5), authorizer)  # type: ignore[arg-type]
    asked = AddPartitionsToTxnRequest()
    response = at_once(GUARDS["AddPartitionsToTxn"].handling(asked, rights, lambda: pytest.fail("it was not denied")))
    assert response.error_code == CLUSTER


def test_topic_of_a_request_that_is_not_there_is_denied_as_one_that_is(closed):
    closed.allow()
    assert codes(closed, "Metadata of a new topic", 9) == {TOPIC}
    assert "visits2" not in closed.broker.cluster.topics
