"""DescribeGroups, ListGroups, DeleteGroups and FindCoordinator."""

from __future__ import annotations

import pytest

from milepost.protocol.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from tests.coordinator.group_fixture import VISITS, GroupBench


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


def describe(bench: GroupBench, *groups: str, version: int = 6, **fields):
    return bench.call(DescribeGroupsRequest(groups=list(groups), **fields), version).response.groups


def listed(bench: GroupBench, *, version: int = 5, **filters):
    response = bench.call(ListGroupsRequest(**filters), version).response
    assert response.error_code == 0
    return [(group.group_id, group.protocol_type, group.group_state, group.group_type) for group in response.groups]


# Describe.


def test_a_stable_group_is_described_with_metadata_and_assignments(bench):
    (member_id,) = bench.stable_group(client_id="app")
    (group,) = describe(bench, "g")
    assert (group.error_code, group.error_message, group.group_state) == (0, None, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    assert group.authorized_operations == -2147483648
    (member,) = group.members
    assert (member.member_id, member.group_instance_id, member.client_id) == (member_id, None, "app")
    assert member.client_host == "/127.0.0.1"
    assert (member.member_metadata, member.member_assignment) == (VISITS, member_id.encode())


def test_between_generations_members_are_described_without_them(bench):
    bench.stable_group()
    bench.enter()
    (group,) = describe(bench, "g")
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [(member.member_metadata, member.member_assignment) for member in group.members] == [(b"", b"")] * 2


@pytest.mark.parametrize("version", range(7))
def test_every_version_describes(bench, version):
    bench.stable_group()
    assert [group.group_state for group in describe(bench, "g", "no-such", version=version)] == ["Stable", "Dead"]


def test_an_unknown_group_is_dead_and_from_version_6_not_found(bench):
    (group,) = describe(bench, "no-such", version=5)
    assert (group.error_code, group.group_state) == (0, "Dead")
    (group,) = describe(bench, "no-such")
    assert (group.error_code, group.error_message, group.group_state) == (69, "Group no-such not found.", "Dead")


def test_operations_are_told_when_they_are_asked_for(bench):
    bench.stable_group()
    (group,) = describe(bench, "g", include_authorized_operations=True)
    assert group.authorized_operations == 0b101001000  # describe, delete, read


def test_a_group_of_another_coordinator_is_not_described():
    (group,) = describe(GroupBench(), "g")
    assert group.error_code == 16


# List.


def test_groups_are_listed_with_state_and_type(bench):
    bench.stable_group(group="busy")
    bench.commit({("visits", 0): 1}, group="simple")
    assert listed(bench) == [("busy", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")]
    assert listed(bench, version=0) == [("busy", "consumer", "", ""), ("simple", "", "", "")]


def test_filters_by_state_and_type_ignore_case(bench):
    bench.stable_group(group="busy")
    bench.commit({("visits", 0): 1}, group="simple")
    assert [group[0] for group in listed(bench, states_filter=["stable"])] == ["busy"]
    assert [group[0] for group in listed(bench, states_filter=["Empty", "Stable"], types_filter=["Classic"])] == [
        "busy",
        "simple",
    ]
    assert listed(bench, states_filter=["Dead"]) == []
    assert listed(bench, types_filter=["consumer"]) == []


# Delete.


def test_a_group_without_members_is_deleted_with_its_offsets(bench):
    (member,) = bench.stable_group()
    bench.commit({("visits", 0): 1}, member_id=member, generation=1)
    busy = bench.call(DeleteGroupsRequest(groups_names=["g", "no-such"])).response.results
    assert [(result.group_id, result.error_code) for result in busy] == [("g", 68), ("no-such", 69)]

    bench.leave(member)
    assert bench.call(DeleteGroupsRequest(groups_names=["g"])).response.results[0].error_code == 0
    assert bench.groups.groups == bench.restarted().groups.groups == {}
    assert bench.fetch() == {}


def test_deleting_nothing_is_answered(bench):
    assert bench.call(DeleteGroupsRequest(groups_names=[])).response.results == []


def test_a_group_that_could_not_be_removed_from_the_log_stays(bench):
    bench.commit({("visits", 0): 1})
    bench.log.error = 19
    assert bench.call(DeleteGroupsRequest(groups_names=["g"])).response.results[0].error_code == 15
    assert bench.fetch() == {("visits", 0): 1}


def test_a_deletion_is_answered_when_all_its_groups_are_decided(bench):
    for name in ("one", "two"):
        bench.commit({("visits", 0): 1}, group=name)
    bench.log.is_holding = True
    call = bench.call(DeleteGroupsRequest(groups_names=["one", "no-such", "two"]))
    assert call.is_waiting
    bench.log.release()
    assert [result.error_code for result in call.response.results] == [0, 69, 0]


# FindCoordinator.


@pytest.mark.parametrize(("version", "message"), [(0, None), (1, "NONE"), (3, "NONE")])
def test_this_broker_coordinates_everything(bench, version, message):
    response = bench.call(FindCoordinatorRequest(key="g"), version).response
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 1, "127.0.0.1", 9092)
    if version:
        assert response.error_message == message


def test_from_version_4_several_coordinators_are_found_at_once(bench):
    response = bench.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), 4).response
    found = [(c.key, c.node_id, c.host, c.port, c.error_code, c.error_message) for c in response.coordinators]
    assert found == [("a", 1, "127.0.0.1", 9092, 0, ""), ("b", 1, "127.0.0.1", 9092, 0, "")]


def test_other_kinds_of_coordinators_are_refused(bench):
    (share,) = bench.call(FindCoordinatorRequest(key_type=2, coordinator_keys=["s"]), 6).response.coordinators
    assert (share.error_code, share.node_id) == (42, -1)
    assert bench.call(FindCoordinatorRequest(key="g", key_type=9), 2).response.error_code == 42
