"""A follower's fetch that repeats: one partition moves on, and all others of its fetcher stay where they are.

    first     as any other; what it asks for is noted
    second    if nothing but the offset is different, it is written from a template (`RepeatedFetch`)
    others    while that is so and the responses bring records: the last one with another offset. Whether there is anything to ask about
              other partitions is looked at again after `LOOK_MS`, and at once when one comes, goes or has to wait

That saves a follower that keeps up most of its work between two fetches, and the more so the more partitions it follows. The leader's end
is `broker/fetch/repeated_follower`.
"""

from __future__ import annotations

from collections.abc import Mapping

from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.replica.fetch_session import Position
from milepost.replica.following import Following
from milepost.topic_partition import TopicPartition

LOOK_MS = 100

Asked = Mapping[TopicPartition, Following]


class RepeatedPartition:
    __slots__ = ("asked", "broker_epoch", "following", "look_ms", "name", "position", "request", "session_id")

    def __init__(self, name: TopicPartition, position: Position, asked: Asked, session_id: int, broker_epoch: int):
        self.name = name
        self.following = asked[name]
        self.position = position
        self.asked = asked
        self.session_id = session_id
        self.broker_epoch = broker_epoch
        self.request: RepeatedFetch | None = None
        self.look_ms = 0
        """When to look at all partitions again."""

    def is_continued_by(self, other: RepeatedPartition) -> bool:
        """Whether the next request differs from the one before in its offset alone."""
        return (
            other.name == self.name
            and other.following is self.following
            and other.session_id == self.session_id
            and self.is_like(other.position, other.broker_epoch)
        )

    def is_like(self, position: Position, broker_epoch: int) -> bool:
        known = self.position
        return (
            position.last_fetched_epoch == known.last_fetched_epoch
            and position.start_offset == known.start_offset
            and broker_epoch == self.broker_epoch
        )

    def next_position(self, now_ms: int, broker_epoch: int) -> Position | None:
        """What to ask for, if nothing else needs to be looked at."""
        if now_ms >= self.look_ms:
            return None
        position = self.following.position(tells_epoch=True)
        return position if position.offset != self.position.offset and self.is_like(position, broker_epoch) else None
