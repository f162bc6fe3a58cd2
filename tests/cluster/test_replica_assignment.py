"""Replicas of new partitions: Kafka's own two examples (AdminUtils), and what cannot be assigned."""

from __future__ import annotations

import random

import pytest

from milepost.cluster.replica_assignment import assign_replicas
from milepost.errors import InvalidArgument

RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_ten_partitions_on_five_brokers_shift_with_each_round():
    assigned = assign_replicas(dict.fromkeys(range(5)), 10, 3, random.Random(1), start=0)
    assert list(assigned.values()) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_each_partition_is_on_three_racks():
    assigned = assign_replicas(RACKS, 7, 3, random.Random(1), start=0)
    assert list(assigned.values()) == [(0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2)]


def test_racks_count_only_if_every_broker_has_one():
    assigned = assign_replicas({1: "a", 2: None}, 2, 2, random.Random(1), start=0)
    assert assigned == {0: (1, 2), 1: (2, 1)}


@pytest.mark.parametrize("seed", range(20))
def test_random_start_gives_every_broker_its_share(seed):
    assigned = assign_replicas(dict.fromkeys((1, 2, 3)), 6, 2, random.Random(seed))
    leaders = [replicas[0] for replicas in assigned.values()]
    assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(replicas)) == 2 for replicas in assigned.values())


@pytest.mark.parametrize("factor", [0, 4])
def test_factor_that_the_brokers_do_not_give_is_refused(factor):
    with pytest.raises(InvalidArgument, match=f"replication factor {factor}: there are 3 brokers"):
        assign_replicas(dict.fromkeys((1, 2, 3)), 1, factor, random.Random(1))
