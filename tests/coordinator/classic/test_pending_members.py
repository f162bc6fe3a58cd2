"""Member ids that are given out to whoever asks take bounded memory, and so do the groups that begin with them."""

from __future__ import annotations

import pytest

from milepost.coordinator.classic import pending_members
from tests.coordinator.group_fixture import GroupBench


@pytest.fixture
def bench() -> GroupBench:
    return GroupBench().load()


def test_oldest_ids_are_forgotten_for_new_ones_and_their_groups_with_them(monkeypatch):
    monkeypatch.setattr(pending_members.PendingMembers.__init__, "__defaults__", (100_000,))
    bench = GroupBench().load()
    given = [bench.join(group=f"group-{number}").response.member_id for number in range(1_000)]
    pending = bench.groups.rebalancer.pending
    assert pending.bytes <= 100_000
    assert 20 < len(pending) == len(bench.groups.groups) < 30
    assert bench.join(given[0], group="group-0").error == 25
    joined = bench.join(given[999], group="group-999")
    bench.advance(1)
    assert joined.error == 0


def test_long_group_ids_count_as_what_they_are(monkeypatch):
    monkeypatch.setattr(pending_members.PendingMembers.__init__, "__defaults__", (1_000_000,))
    bench = GroupBench().load()
    for number in range(100):
        bench.join(group=f"{number}".ljust(32_000, "g"))
    assert sum(map(len, bench.groups.groups)) < 1_000_000


def test_id_that_nobody_came_back_with_takes_its_group_along(bench):
    bench.join(session_ms=10_000)
    assert list(bench.groups.groups) == ["g"]
    bench.advance(10_000)
    assert list(bench.groups.groups) == []
    assert (len(bench.groups.rebalancer.pending), bench.groups.rebalancer.pending.bytes) == (0, 0)


def test_group_with_offsets_stays_when_an_id_is_forgotten(bench):
    bench.commit({("visits", 0): 7})
    bench.join(session_ms=10_000)
    bench.advance(10_000)
    assert bench.fetch() == {("visits", 0): 7}
    assert list(bench.groups.groups) == ["g"]


def test_nothing_is_pending_of_groups_that_went_elsewhere_or_came_to_life(bench):
    bench.join(group="goes")
    bench.enter(group="lives")
    pending = bench.groups.rebalancer.pending
    assert len(pending) == 1
    bench.groups.unload(bench.groups.partition_for("goes"))
    assert (len(pending), pending.bytes) == (0, 0)


def test_commit_of_nothing_that_is_there_begins_no_group(bench):
    for number in range(10):
        bench.commit({("nowhere", 0): 1}, group=f"group-{number}")
    bench.commit({("visits", 0): 1}, group="oversized", metadata="m" * 5_000)
    bench.log.error = 19
    bench.commit({("visits", 0): 1}, group="unwritten")
    assert list(bench.groups.groups) == []
