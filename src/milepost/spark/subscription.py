"""Which partitions a query reads: named ones, all of some topics, or of every topic whose name matches a pattern.

Exactly one of `assign`, `subscribe` and `subscribePattern` is given, as with the connector. Over files, none of them means every
topic there is, without those whose names begin with `__`. A pattern matches Kafka's own topics (`__consumer_offsets`,
`__transaction_state`) as little as the connector's does: these are read when they are named.

A pattern is a Java regular expression and matches the whole name. Those that topic names call for (`page_.*`, `a|b`, `[a-z]+`,
`(?i)x`) mean the same in Python; Java's possessive quantifiers and `\\p{Alpha}` do not exist before Python 3.11, or at all, and are
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from milepost.errors import InvalidArgument
from milepost.spark.option_values import partition_list
from milepost.topic_partition import TopicPartition

OPTIONS = ("assign", "subscribe", "subscribePattern")
INTERNAL = "__"
KAFKAS_OWN = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")


@dataclass(frozen=True, slots=True)
class Subscription:
    assign: tuple[TopicPartition, ...] | None = None
    topics: tuple[str, ...] | None = None
    pattern: str | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, may_be_all: bool) -> Subscription:
        given = [name for name in OPTIONS if name in options]
        if len(given) > 1:
            raise InvalidArgument(f"{' and '.join(given)} are given; one of assign, subscribe and subscribePattern is possible")
        if not given:
            if may_be_all:
                return cls()
            raise InvalidArgument("one of assign, subscribe and subscribePattern is needed, such as subscribe=page_visits")
        name, text = given[0], options[given[0]].strip()
        if name == "assign":
            assign = partition_list(text, name)
            if not assign:
                raise InvalidArgument(f'assign is {text!r}; partitions are expected, such as {{"page_visits":[0,1]}}')
            return cls(assign=assign)
        if name == "subscribe":
            topics = tuple(dict.fromkeys(topic.strip() for topic in text.split(",") if topic.strip()))
            if not topics:
                raise InvalidArgument(f"subscribe is {text!r}; topics are expected, such as page_visits,clicks")
            return cls(topics=topics)
        if not text:
            raise InvalidArgument("subscribePattern is empty; a regular expression is expected, such as page_.*")
        try:
            re.compile(text)
        except re.error as error:
            raise InvalidArgument(f"subscribePattern is {text!r}, which is no regular expression here: {error}") from None
        return cls(pattern=text)

    def wants(self, topic: str) -> bool:
        if self.assign is not None:
            return any(partition.topic == topic for partition in self.assign)
        if self.topics is not None:
            return topic in self.topics
        if self.pattern is not None:
            return topic not in KAFKAS_OWN and re.fullmatch(self.pattern, topic) is not None
        return not topic.startswith(INTERNAL)

    def chosen(self, existing: Iterable[TopicPartition], where: str = "") -> list[TopicPartition]:
        """Of the partitions there are; what is named and does not exist is an InvalidArgument, a pattern may match nothing."""
        there = sorted(set(existing))
        if self.assign is not None:
            missing = sorted(set(self.assign) - set(there))
            self._refuse([str(partition) for partition in missing], "partition", there, where)
            return list(self.assign)
        if self.topics is not None:
            topics = {partition.topic for partition in there}
            self._refuse([topic for topic in self.topics if topic not in topics], "topic", there, where)
        return self.existing(there)

    def existing(self, existing: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Of the partitions there are, without a word about what is named and does not exist (any more)."""
        named = self.assign
        return [each for each in sorted(set(existing)) if (each in named if named is not None else self.wants(each.topic))]

    def _refuse(self, missing: list[str], what: str, there: list[TopicPartition], where: str) -> None:
        if not missing:
            return
        known = sorted({partition.topic for partition in there})
        listed = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
        place = f" in {where}" if where else ""
        raise InvalidArgument(f"there is no {what} {', '.join(missing)}{place}; topics there: {listed or 'none'}")
