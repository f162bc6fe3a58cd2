"""What the patterns of all consumer groups stand for: looked for once, kept once, and bounded.

A pattern takes a few bytes of a request, and may stand for every topic there is. So

    groups with the same pattern           the topics are not matched again until topics change
    patterns that stand for the same       the groups keep one object
    all groups together                    keep MOST_NAMES names; a pattern with which there would be more is refused
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_targets import ClusterTopics, PatternTopics
from milepost.coordinator.consumer.shared_sets import shared
from milepost.coordinator.interfaces import Client, Work
from milepost.coordinator.regex.re2_syntax import RegularExpressionError
from milepost.coordinator.regex.subscriptions import resolving

Names = frozenset[str]
MOST_NAMES = 500_000
"""About 40 MB, besides the names themselves, which are the topics'."""
PATTERNS_KEPT = 20


class FoundTopics:
    def __init__(self, cluster: ClusterTopics):
        self._cluster = cluster
        self.changes = 0
        """How often topics have changed."""
        self._by_pattern: dict[str, Names] = {}

    def resolving(self, pattern: str) -> Work[Names]:
        """The topics of a pattern; RegularExpressionError when it is none, or costs too much."""
        found = self._by_pattern.get(pattern)
        if found is not None:
            return found
        changes = self.changes
        found = shared((yield from resolving(pattern, self._cluster.topics)))
        if changes == self.changes:
            if len(self._by_pattern) >= PATTERNS_KEPT:
                del self._by_pattern[next(iter(self._by_pattern))]
            self._by_pattern[pattern] = found
        return found

    def seen_by(self, client: Client) -> PatternTopics:
        """The same without topics that a client may not describe, as in Kafka: the group works on what its member may see."""
        return self if client.may_describe is None else SeenTopics(self, client.may_describe)

    def topics_changed(self) -> None:
        self.changes += 1
        self._by_pattern.clear()

    def ensure_room(self, names: Names, groups: Iterable[object]) -> None:
        """That one more pattern with these topics may be kept."""
        known = kept_by(groups)
        if id(names) in known:
            return
        count = sum(known.values()) + len(names)
        if count > MOST_NAMES:
            raise RegularExpressionError(
                f"the patterns of all groups would stand for {count} topics, and at most {MOST_NAMES} are kept; subscribe by names"
            )


class SeenTopics:
    def __init__(self, topics: FoundTopics, is_seen: Callable[[str], bool]):
        self._topics = topics
        self._is_seen = is_seen

    def resolving(self, pattern: str) -> Work[Names]:
        seen = set()
        for name in (yield from self._topics.resolving(pattern)):
            if self._is_seen(name):
                seen.add(name)
            yield
        return shared(frozenset(seen))


def kept_by(groups: Iterable[object]) -> dict[int, int]:
    """How many names there are in each of the different objects that groups keep for their patterns."""
    of_consumers = (group for group in groups if isinstance(group, ConsumerGroup))
    return {id(names): len(names) for group in of_consumers for names in group.regexes.values()}
