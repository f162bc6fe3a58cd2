"""The assignors that run in the broker."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from milepost.coordinator.consumer.assignors import Assignment, PartitionCounts, Subscriber, range_assignor, uniform_assignor
from milepost.coordinator.consumer.consumer_member import Partitions
from tests.coordinator.in_pieces import finish

A, B = b"a", b"b"


def member(name: str, *topics: bytes, target: Partitions = frozenset(), instance: str | None = None) -> Subscriber:
    return Subscriber(name, instance, frozenset(topics), target)


def of(topic: bytes, *partitions: int) -> Partitions:
    return frozenset((topic, partition) for partition in partitions)


def by_range(members: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    return finish(range_assignor(members, counts))


def uniformly(members: Sequence[Subscriber], counts: PartitionCounts) -> Assignment:
    return finish(uniform_assignor(members, counts))


# Range.


def test_range_gives_neighbouring_partitions_and_the_first_get_one_more():
    assert by_range([member("x", A), member("y", A), member("z", A)], {A: 8}) == {
        "x": of(A, 0, 1, 2),
        "y": of(A, 3, 4, 5),
        "z": of(A, 6, 7),
    }


def test_range_splits_topics_of_the_same_size_alike():
    assert by_range([member("y", A, B), member("x", A, B)], {A: 2, B: 2}) == {
        "x": of(A, 0) | of(B, 0),
        "y": of(A, 1) | of(B, 1),
    }


def test_range_goes_by_instance_ids_first():
    assert by_range([member("x", A), member("z", A, instance="i")], {A: 2}) == {"z": of(A, 0), "x": of(A, 1)}


def test_range_leaves_members_without_partitions_when_there_are_too_few():
    assert by_range([member("x", A), member("y", A), member("z", B)], {A: 1}) == {
        "x": of(A, 0),
        "y": frozenset(),
        "z": frozenset(),
    }


# Uniform.


def test_uniform_goes_round():
    assert uniformly([member("x", A), member("y", A)], {A: 5}) == {"x": of(A, 0, 2, 4), "y": of(A, 1, 3)}


def test_uniform_leaves_partitions_where_they_are():
    members = [member("x", A, target=of(A, 0, 1)), member("y", A, target=of(A, 2, 3))]
    assert uniformly(members, {A: 4}) == {"x": of(A, 0, 1), "y": of(A, 2, 3)}


def test_uniform_takes_from_the_rich_only_what_the_newcomer_needs():
    members = [member("x", A, target=of(A, 0, 1, 2)), member("y", A, target=of(A, 3, 4, 5)), member("z", A)]
    assert uniformly(members, {A: 6}) == {"x": of(A, 0, 1), "y": of(A, 3, 4), "z": of(A, 2, 5)}


def test_uniform_gives_what_a_member_left_behind_to_those_who_have_room():
    members = [member("x", A, target=of(A, 0, 1)), member("y", A, target=of(A, 2))]
    assert uniformly(members, {A: 4}) == {"x": of(A, 0, 1), "y": of(A, 2, 3)}


def test_uniform_forgets_topics_and_partitions_that_are_gone():
    members = [member("x", A, target=of(A, 0, 9) | of(B, 0))]
    assert uniformly(members, {A: 1}) == {"x": of(A, 0)}


def test_a_partition_that_two_claim_goes_to_one():
    members = [member("x", A, target=of(A, 0)), member("y", A, target=of(A, 0))]
    assert uniformly(members, {A: 2}) == {"x": of(A, 0), "y": of(A, 1)}


def test_uniform_with_different_subscriptions_fills_up_who_has_the_least():
    members = [member("x", A, B), member("y", B)]
    assert uniformly(members, {A: 2, B: 2}) == {"x": of(A, 0, 1), "y": of(B, 0, 1)}


def test_nobody_gets_nothing():
    assert uniformly([], {A: 2}) == {}
    assert by_range([], {A: 2}) == {}
    assert uniformly([member("x")], {}) == {"x": frozenset()}


topics = st.dictionaries(st.sampled_from([bytes([n]) for n in range(5)]), st.integers(1, 9))


@st.composite
def groups(draw):
    counts = draw(topics)
    names = [f"m{n}" for n in range(draw(st.integers(1, 6)))]
    places = [(topic, partition) for topic in counts for partition in range(counts[topic])]
    members = []
    for name in names:
        wanted = draw(st.frozensets(st.sampled_from([*counts, b"gone"])))
        target = draw(st.frozensets(st.sampled_from(places))) if places else frozenset()
        members.append(Subscriber(name, None, wanted, target))
    return members, counts


@given(groups())
def test_every_partition_that_somebody_wants_has_one_owner_who_wants_it(group):
    members, counts = group
    wanted = {(t, p) for t in counts for p in range(counts[t]) if any(t in member.topics for member in members)}
    for assignor in (uniformly, by_range):
        assigned = assignor(members, counts)
        assert set(assigned) == {member.member_id for member in members}
        given_out = [place for partitions in assigned.values() for place in partitions]
        assert len(given_out) == len(set(given_out))
        assert set(given_out) == wanted
        for member in members:
            assert {topic for topic, _ in assigned[member.member_id]} <= member.topics


@given(groups())
def test_with_uniform_nobody_could_take_a_partition_from_somebody_who_has_two_more(group):
    members, counts = group
    assigned = uniformly(members, counts)
    for rich in members:
        for poor in members:
            if len(assigned[rich.member_id]) > len(assigned[poor.member_id]) + 1:
                assert not {topic for topic, _ in assigned[rich.member_id]} & poor.topics


@given(groups())
def test_uniform_is_content_with_its_own_work(group):
    members, counts = group
    first = uniformly(members, counts)
    settled = [Subscriber(m.member_id, None, m.topics, first[m.member_id]) for m in members]
    assert uniformly(settled, counts) == first
