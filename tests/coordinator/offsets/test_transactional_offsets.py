"""TxnOffsetCommit: offsets that wait for the marker of their transaction."""

from __future__ import annotations

import pytest

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import DeleteGroupsRequest
from tests.coordinator.group_fixture import DAY_MS, GroupBench, partition_errors


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


@pytest.mark.parametrize("version", range(6))
def test_pending_offsets_count_when_the_transaction_commits(bench, version):
    bench.commit({("visits", 0): 1})
    assert partition_errors(bench.commit_in_transaction({("visits", 0): 9}, version=version)) == [0]
    assert bench.fetch() == {("visits", 0): 1}
    bench.end_transaction(committed=True)
    assert bench.fetch() == {("visits", 0): 9}


def test_pending_offsets_are_dropped_when_the_transaction_aborts(bench):
    bench.commit({("visits", 0): 1})
    bench.commit_in_transaction({("visits", 0): 9})
    bench.end_transaction(committed=False)
    assert bench.fetch(stable=True) == {("visits", 0): 1}


def test_who_wants_stable_offsets_is_told_to_wait_for_the_marker(bench):
    bench.commit({("visits", 0): 1, ("visits", 1): 1})
    bench.commit_in_transaction({("visits", 0): 9})
    assert bench.fetch(stable=True) == {("visits", 0): ("error", 88), ("visits", 1): 1}
    assert bench.fetch(stable=False) == {("visits", 0): 1, ("visits", 1): 1}
    bench.end_transaction(committed=True)
    assert bench.fetch(stable=True) == {("visits", 0): 9, ("visits", 1): 1}


def test_an_offset_is_unstable_as_soon_as_its_commit_is_on_the_way_to_the_log(bench):
    bench.commit({("visits", 0): 1})
    bench.log.is_holding = True
    call = bench.commit_in_transaction({("visits", 0): 9})
    assert call.is_waiting
    assert bench.fetch(stable=True) == {("visits", 0): ("error", 88)}
    bench.log.error = ErrorCode.INVALID_PRODUCER_EPOCH
    bench.log.release()
    assert partition_errors(call) == [47]
    assert bench.fetch(stable=True) == {("visits", 0): 1}


def test_a_commit_that_came_later_is_not_undone_by_an_older_transaction(bench):
    bench.commit_in_transaction({("visits", 0): 5})
    bench.commit({("visits", 0): 9})
    bench.end_transaction(committed=True)
    assert bench.fetch() == bench.restarted().fetch() == {("visits", 0): 9}


def test_transactions_of_different_producers_do_not_touch_each_other(bench):
    bench.commit_in_transaction({("visits", 0): 5}, producer_id=5)
    bench.commit_in_transaction({("visits", 1): 6}, producer_id=6)
    bench.end_transaction(committed=True, producer_id=6)
    assert bench.fetch(stable=True) == {("visits", 0): ("error", 88), ("visits", 1): 6}


def test_from_version_3_the_member_and_its_generation_are_checked(bench):
    (member,) = bench.stable_group()
    offsets = {("visits", 0): 5}
    assert partition_errors(bench.commit_in_transaction(offsets, member_id="nobody", generation_id=1)) == [25]
    assert partition_errors(bench.commit_in_transaction(offsets, member_id=member, generation_id=2)) == [22]
    assert partition_errors(bench.commit_in_transaction(offsets, member_id=member, generation_id=1)) == [0]
    assert partition_errors(bench.commit_in_transaction(offsets, version=2)) == [0]
    assert partition_errors(bench.commit_in_transaction(offsets, group="unknown", member_id="m", generation_id=1)) == [22]
    assert partition_errors(bench.commit_in_transaction(offsets, group="")) == [24]


def test_a_partition_that_is_not_part_of_the_transaction_is_refused(bench):
    bench.transactions.error = ErrorCode.TRANSACTION_ABORTABLE
    assert partition_errors(bench.commit_in_transaction({("visits", 0): 5}, version=3)) == [48]
    assert partition_errors(bench.commit_in_transaction({("visits", 0): 5}, version=4)) == [120]
    bench.transactions.error = ErrorCode.CONCURRENT_TRANSACTIONS
    assert partition_errors(bench.commit_in_transaction({("visits", 0): 5}, version=4)) == [14]
    assert partition_errors(bench.commit_in_transaction({("visits", 0): 5}, version=5)) == [51]
    assert bench.groups.groups == {}


def test_pending_offsets_survive_a_restart_and_wait_on(bench):
    bench.commit({("visits", 0): 1})
    bench.commit_in_transaction({("visits", 0): 9})
    again = bench.restarted()
    assert again.fetch(stable=True) == {("visits", 0): ("error", 88)}
    again.end_transaction(committed=True)
    assert again.fetch(stable=True) == again.restarted().fetch(stable=True) == {("visits", 0): 9}


def test_a_transaction_that_ended_before_the_restart_is_decided_by_its_marker(bench):
    bench.commit_in_transaction({("visits", 0): 9})
    bench.end_transaction(committed=True)
    bench.commit_in_transaction({("visits", 0): 12})
    bench.end_transaction(committed=False)
    assert bench.restarted().fetch(stable=True) == {("visits", 0): 9}


def test_a_group_with_pending_offsets_only_is_there_after_a_restart(bench):
    bench.commit_in_transaction({("visits", 0): 9})
    assert list(bench.restarted().groups.groups) == ["g"]


def test_offsets_that_a_transaction_may_change_do_not_expire(bench):
    bench.commit({("visits", 0): 1})
    bench.commit_in_transaction({("visits", 0): 9})
    bench.advance(8 * DAY_MS)
    assert bench.fetch() == {("visits", 0): 1}


def test_pending_offsets_of_a_deleted_group_do_not_come_back(bench):
    bench.commit_in_transaction({("visits", 0): 9})
    bench.call(DeleteGroupsRequest(groups_names=["g"]))
    bench.end_transaction(committed=True)
    assert bench.fetch() == bench.restarted().fetch() == {}
