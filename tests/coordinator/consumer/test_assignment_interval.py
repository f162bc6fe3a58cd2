"""A consumer group computes its target assignment at most once in its assignment interval (KIP-1263), as Kafka 4.3 does.

`visits` has four partitions, `orders` two. What changes within the interval raises the group's epoch at once.
"""

from __future__ import annotations

import pytest

from milepost.config.group import GroupConfig
from tests.coordinator.consumer.consumer_fixture import ConsumerBench
from tests.coordinator.consumer.test_consumer_groups_migration import assigned, classic_group, rejoin

ALL = [0, 1, 2, 3]


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench(assignment_interval_ms=1_000)


def epochs(bench: ConsumerBench) -> tuple[int, int]:
    found = bench.described()
    return found.group_epoch, found.assignment_epoch


def computed(bench: ConsumerBench) -> int:
    """How many assignments were written."""
    return sum(key.startswith('{"type":"6"') for key, _ in bench.log.written())


def test_the_first_assignment_of_a_group_waits_for_nothing(bench):
    assert bench.joined("a") == (2, {"visits": ALL})
    assert epochs(bench) == (2, 2)


def test_two_changes_within_the_interval_make_one_assignment(bench):
    bench.joined("a")
    before = computed(bench)
    bench.timers.advance(999)
    assert bench.joined("b") == (2, {})
    assert bench.joined("c") == (2, {})
    assert epochs(bench) == (4, 2)
    assert bench.group().state_name == "Assigning"
    assert bench.heard("a", 2) == (2, None)
    assert computed(bench) == before
    bench.timers.advance(1)
    epoch, kept = bench.heard("a", 2)
    assert (epoch, len(kept["visits"])) == (2, 2)
    assert epochs(bench) == (4, 4)
    assert computed(bench) == before + 1
    assert bench.heard("a", 2, kept) == (4, None)
    given = [bench.heard(member, 2)[1]["visits"] for member in ("b", "c")]
    assert sorted([*kept["visits"], *given[0], *given[1]]) == ALL


def test_it_is_the_next_heartbeat_that_assigns_and_no_timer(bench):
    bench.joined("a")
    bench.joined("b")
    bench.timers.advance(5_000)
    assert epochs(bench) == (3, 2)
    assert bench.heard("b", 2) == (3, None)
    assert epochs(bench) == (3, 3)


def test_a_member_that_goes_leaves_its_partitions_to_the_next_assignment(bench):
    bench.joined("a")
    bench.timers.advance(1_000)
    bench.joined("b")
    _, kept = bench.heard("a", 2)
    bench.heard("a", 2, kept)
    bench.heard("b", 3)
    assert bench.beat("b", -1).error == 0
    assert bench.heard("a", 3) == (3, None)
    assert epochs(bench) == (4, 3)
    bench.timers.advance(1_000)
    assert bench.heard("a", 3) == (4, {"visits": ALL})


def test_a_group_that_was_left_by_all_waits_as_any_other(bench):
    bench.joined("a")
    bench.beat("a", -1)
    assert bench.joined("b") == (2, {})
    bench.timers.advance(1_000)
    assert bench.heard("b", 2) == (4, {"visits": ALL})


def test_without_an_interval_every_change_is_assigned_at_once():
    bench = ConsumerBench(assignment_interval_ms=0)
    bench.joined("a")
    assert bench.joined("b")[0] == 3
    assert epochs(bench) == (3, 3)


def test_the_interval_of_the_group_counts_before_the_brokers(bench):
    bench.consumer_groups.use_config("g", GroupConfig.parse({"consumer.assignment.interval.ms": 100}))
    bench.joined("a")
    bench.timers.advance(99)
    assert bench.joined("b") == (2, {})
    bench.timers.advance(1)
    assert bench.heard("b", 2) == (3, None)


def test_the_interval_goes_on_when_the_coordinator_changes(bench):
    bench.joined("a")
    bench.timers.advance(500)
    again = bench.restarted()
    assert again.joined("b") == (2, {})
    again.timers.advance(499)
    assert again.heard("b", 2) == (2, None)
    again.timers.advance(1)
    assert again.heard("b", 2) == (3, None)


def test_a_clock_that_was_put_back_holds_nothing_up(bench):
    bench.joined("a")
    bench.clock.advance(-3_600_000)
    assert bench.joined("b") == (3, {})


def test_what_a_member_unsubscribes_from_it_gives_up_at_once(bench):
    both = {"orders": [0, 1], "visits": ALL}
    assert bench.joined("a", subscribed_topic_names=["visits", "orders"]) == (2, both)
    assert bench.heard("a", 2, both, subscribed_topic_names=["visits"]) == (2, {"visits": ALL})
    assert bench.heard("a", 2, {"visits": ALL}) == (2, None)
    assert epochs(bench) == (3, 2)
    assert bench.joined("b", subscribed_topic_names=["orders"]) == (2, {})
    bench.timers.advance(1_000)
    assert bench.heard("b", 2) == (4, {"orders": [0, 1]})
    assert bench.heard("a", 2) == (4, None)


def test_nobody_gets_what_was_unsubscribed_from_and_is_still_worked_on(bench):
    both = {"orders": [0, 1], "visits": ALL}
    bench.joined("a", subscribed_topic_names=["visits", "orders"])
    bench.heard("a", 2, both, subscribed_topic_names=["visits"])
    bench.joined("b", subscribed_topic_names=["orders"])
    bench.timers.advance(1_000)
    assert bench.heard("b", 2) == (4, None)
    assert bench.heard("a", 2, {"visits": ALL}) == (4, None)
    assert bench.heard("b", 4) == (4, {"orders": [0, 1]})


def test_a_topic_subscribed_to_within_the_interval_comes_with_the_next_assignment(bench):
    bench.joined("a")
    assert bench.heard("a", 2, subscribed_topic_names=["visits", "orders"]) == (2, None)
    bench.timers.advance(1_000)
    assert bench.heard("a", 2) == (3, {"orders": [0, 1], "visits": ALL})


def test_an_assignment_that_could_not_be_written_does_not_count(bench):
    bench.joined("a")
    bench.timers.advance(1_000)
    bench.log.error = 19
    assert bench.enter("b").error == 15
    bench.log.error = 0
    assert bench.joined("b") == (3, {})
    assert epochs(bench) == (3, 3)


def test_a_group_that_is_upgraded_assigns_at_once_and_then_keeps_the_interval(bench):
    old = classic_group(bench)
    assert bench.joined("new") == (2, {})
    assert epochs(bench) == (2, 2)
    assert bench.joined("newer") == (2, {})
    assert epochs(bench) == (3, 2)
    assert bench.heartbeat(old, 1) == 27  # of the first assignment


def test_a_classic_member_is_not_sent_round_while_there_is_no_assignment_to_come_to(bench):
    old = classic_group(bench)
    bench.joined("new")
    rejoin(bench, old, {"visits": [0, 1, 2, 3]}, 1)
    rejoin(bench, old, {"visits": [0, 1]}, 1)
    assert assigned(bench.sync(old, 2)) == {"visits": [0, 1]}
    bench.joined("newer")
    assert epochs(bench) == (3, 2)
    assert bench.heartbeat(old, 2) == 0
    assert bench.sync(old, 2).error == 0
    bench.timers.advance(1_000)
    # Its join has the assignment computed, if no heartbeat was quicker.
    assert bench.heartbeat(old, 2) == 27
    assert bench.sync(old, 2).error == 27
    rejoin(bench, old, {"visits": [0, 1]}, 2)
    assert epochs(bench) == (3, 3)
