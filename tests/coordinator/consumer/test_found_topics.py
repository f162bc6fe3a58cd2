"""What patterns of consumer groups stand for: looked for once, kept once, bounded over all groups."""

from __future__ import annotations

import pytest

from milepost.coordinator.consumer import found_topics
from milepost.coordinator.consumer.found_topics import kept_by
from tests.coordinator.consumer.consumer_fixture import ClusterTopics, ConsumerBench
from tests.coordinator.in_pieces import finish

NAMES = [f"topic-{number}" for number in range(50)]


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench(topics=ClusterTopics(dict.fromkeys(NAMES, 1)))


def enter(bench: ConsumerBench, group: str, pattern: str) -> int:
    return bench.enter("m", group=group, subscribed_topic_names=[], subscribed_topic_regex=pattern).error


def kept(bench: ConsumerBench) -> int:
    return sum(kept_by(bench.groups.groups.values()).values())


def test_pattern_of_many_groups_is_looked_for_once(bench, monkeypatch):
    looked = []
    resolving = found_topics.resolving
    monkeypatch.setattr(found_topics, "resolving", lambda pattern, names: looked.append(pattern) or resolving(pattern, names))
    assert [enter(bench, f"g{number}", "topic-.*") for number in range(5)] == [0] * 5
    assert looked == ["topic-.*"]
    bench.cluster.partitions["topic-new"] = 1
    bench.consumer_groups.on_topics_changed()
    assert [bench.heard("m", 2, group=f"g{number}")[0] for number in range(5)] == [3] * 5
    assert looked == ["topic-.*", "topic-.*"]


def test_only_some_patterns_are_remembered(bench, monkeypatch):
    monkeypatch.setattr(found_topics, "PATTERNS_KEPT", 2)
    looked = []
    resolving = found_topics.resolving
    monkeypatch.setattr(found_topics, "resolving", lambda pattern, names: looked.append(pattern) or resolving(pattern, names))
    for number, pattern in enumerate(["a", "b", "c", "c", "b", "a"]):
        assert enter(bench, f"g{number}", pattern) == 0
    assert looked == ["a", "b", "c", "a"]


def test_topics_that_change_while_they_are_looked_for_are_not_remembered(bench):
    bench.cluster.partitions.update({f"topic-{number}": 1 for number in range(1_000)})
    topics = bench.consumer_groups.found_topics
    work = topics.resolving("topic-.*")
    next(work)
    bench.cluster.partitions["topic-new"] = 1
    topics.topics_changed()
    assert len(finish(work)) == 1_000
    assert len(finish(topics.resolving("topic-.*"))) == 1_001


def test_topics_are_kept_once_where_patterns_stand_for_the_same(bench):
    for number, pattern in enumerate(["topic-.*", "topic-[0-9]+", "t.*", "topic-1.*"]):
        assert enter(bench, f"g{number}", pattern) == 0
    assert kept(bench) == 50 + 11
    assert sum(kept_by(bench.restarted().groups.groups.values()).values()) == 50 + 11


def test_pattern_is_refused_when_all_groups_keep_too_many_topics(bench, monkeypatch):
    monkeypatch.setattr(found_topics, "MOST_NAMES", 61)
    assert enter(bench, "a", "topic-.*") == 0
    assert enter(bench, "b", "topic-1.*") == 0
    refused = bench.enter("m", group="c", subscribed_topic_names=[], subscribed_topic_regex="topic-2.*")
    assert refused.error == 128
    assert refused.response.error_message == (
        "the pattern cannot be used: the patterns of all groups would stand for 72 topics, and at most 61 are kept; subscribe by names"
    )
    assert enter(bench, "c", "t.*") == 0, "whose topics are kept anyway"
    assert bench.beat("m", -1, group="b").error == 0
    assert enter(bench, "d", "topic-2.*") == 0


def test_partitions_are_kept_once_where_groups_have_the_same(bench):
    for group in ("a", "b"):
        assert enter(bench, group, "topic-.*") == 0
    first, second = bench.group("a"), bench.group("b")
    assert len(first.targets["m"]) == 50
    assert first.targets["m"] is first.members["m"].assigned is second.targets["m"] is second.members["m"].assigned
