"""Fetches for all the partitions that this broker follows from one leader: one request after the other, over one connection.

A fetch waits at the leader until there is something (`replica.fetch.wait.max.ms`), so an idle cluster sends two requests a second, and a
busy one as many as the network takes. What the leader refuses for one partition holds up that one alone: it is left out for a moment, or,
when our epoch is stale, until the next LeaderAndIsr. A session that is over is followed by a full request at once; a full request that is
refused is not repeated before that moment.

Partitions whose move is throttled are left out while more came than their rate allows, unless they are in sync; when nothing else is
fetched here, we look again after `replica.fetch.backoff.ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from milepost.clock import Clock
from milepost.errors import KafkaStorage, MilepostError
from milepost.loop import Timer, Timers
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.follower_fetch_frames import SINCE as REPEATED_SINCE
from milepost.protocol.follower_fetch_frames import RepeatedAnswer, RepeatedFetch
from milepost.protocol.messages import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from milepost.replica.fetch_session import FetchSession, Position
from milepost.replica.following import Following
from milepost.replica.metadata import BrokerInfo
from milepost.replica.peers import Peers
from milepost.replica.repeated_fetch import LOOK_MS, Asked, RepeatedPartition
from milepost.replica.replication_quota import ReplicationQuota
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.replica")

EARLIEST, LATEST = -2, -1
REPLICA_EPOCH_VERSION = 15
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
PASSING = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH})
"""While a leader changes, until both brokers have heard of it."""


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    broker_id: int
    fetch_version: int = 17
    list_offsets_version: int = 9
    epoch_version: int = 4
    truncates_on_fetch: bool = True
    wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    response_max_bytes: int = 10 << 20
    backoff_ms: int = 1000


class Fetcher:
    def __init__(
        self,
        leader: BrokerInfo,
        number: int,
        settings: FetcherSettings,
        peers: Peers,
        timers: Timers,
        clock: Clock,
        broker_epoch: Callable[[], int],
        on_progress: Callable[[TopicPartition, int], object],
        on_failed: Callable[[TopicPartition, MilepostError], object],
        quota: ReplicationQuota,
    ):
        self.leader = leader
        self.purpose = f"fetcher-{number}"
        self.settings = settings
        self.partitions: dict[TopicPartition, Following] = {}
        self._peers = peers
        self._timers = timers
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._on_progress = on_progress
        self._on_failed = on_failed
        self._quota = quota
        self._session = FetchSession()
        self._repeated: RepeatedPartition | None = None
        self._is_busy = False
        self._is_closed = False
        self._timer: Timer | None = None

    # Partitions.

    def add(self, name: TopicPartition, following: Following) -> None:
        following.is_truncating = not self.settings.truncates_on_fetch
        self.partitions[name] = following
        self._repeated = None
        self._go_on()

    def remove(self, name: TopicPartition) -> None:
        self.partitions.pop(name, None)
        self._repeated = None

    def close(self) -> None:
        self._is_closed = True
        self.partitions.clear()
        if self._timer is not None:
            self._timer.cancel()

    # Turns.

    def _go_on(self) -> None:
        """The next request, if none is in flight and a partition is ready."""
        if self._is_busy or self._is_closed or not self.partitions:
            return
        now = self._clock.now_ms()
        if self._repeated is not None and self._fetch_again(self._repeated, now):
            return
        due = {name: each for name, each in self.partitions.items() if each.not_before_ms <= now}
        truncating = {name: each for name, each in due.items() if each.is_truncating}
        ready = self._within_quota(due)
        if truncating:
            self._ask_epochs(truncating)
        elif ready:
            self._fetch(ready, now)
        else:
            waits = [each.not_before_ms - now for each in self.partitions.values() if each.not_before_ms > now]
            self._later(max(1, min([*waits, self.settings.backoff_ms] if due else waits)))

    def _within_quota(self, due: dict[TopicPartition, Following]) -> dict[TopicPartition, Following]:
        """Without those that must wait because too much came for such as them."""
        if not self._quota.is_in_use:
            return due
        behind = {name for name, each in due.items() if not each.is_in_sync and self._quota.is_throttled(name)}
        if not behind or not self._quota.is_exceeded:
            return due
        return {name: each for name, each in due.items() if name not in behind}

    def _later(self, ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timers.later(ms / 1000, self._go_on)

    def _send(self, request: Any, version: int, on_answer: Callable[[Any], object]) -> None:
        self._is_busy = True

        def answered(response: Any) -> None:
            self._is_busy = False
            if not self._is_closed:
                on_answer(response)
                self._go_on()

        self._peers.send(self.leader, request, version, answered, self._lost, purpose=self.purpose)

    def _lost(self, error: MilepostError) -> None:
        self._is_busy = False
        if not self._is_closed:
            logger.info("fetch from broker %d failed: %s", self.leader.broker_id, error)
            self._reset()
            self._later(self.settings.backoff_ms)

    def _reset(self) -> None:
        self._session.reset()
        self._repeated = None

    def _delay(self, name: TopicPartition) -> None:
        following = self.partitions.get(name)
        if following is not None:
            following.not_before_ms = self._clock.now_ms() + self.settings.backoff_ms
            self._repeated = None

    # Fetching.

    def _fetch(self, ready: dict[TopicPartition, Following], now_ms: int) -> None:
        settings = self.settings
        wanted = {name: each.position(tells_epoch=settings.truncates_on_fetch) for name, each in ready.items()}
        topics, forgotten = self._session.request(wanted, settings.max_bytes)
        self._repeated = repeated = self._repeated_fetch(topics, forgotten, wanted, ready)
        if repeated is None or repeated.request is None:
            request = self._request(topics, forgotten)
            self._send(request, settings.fetch_version, lambda response: self._fetched(response, ready))
        else:
            repeated.look_ms = now_ms + LOOK_MS
            self._send_repeated(repeated, repeated.request)

    def _repeated_fetch(
        self,
        topics: list[FetchRequest.Topic],
        forgotten: list[FetchRequest.ForgottenTopicsData],
        wanted: dict[TopicPartition, Position],
        asked: Asked,
    ) -> RepeatedPartition | None:
        """What the request begins, or goes on with."""
        is_one = len(topics) == 1 and len(topics[0].partitions) == 1 and not forgotten
        if not is_one or not self._session.epoch or self.settings.fetch_version < REPEATED_SINCE:
            return None
        name = TopicPartition(topics[0].topic, topics[0].partitions[0].partition)
        repeated = RepeatedPartition(name, wanted[name], asked, self._session.session_id, self._broker_epoch())
        if self._repeated is not None and self._repeated.is_continued_by(repeated):
            repeated.request = self._repeated.request or RepeatedFetch(
                self.settings.fetch_version, self._request(topics, forgotten)
            )
        return repeated

    def _fetch_again(self, repeated: RepeatedPartition, now_ms: int) -> bool:
        """Whether the next request was a repeated one, and is sent."""
        position = None if self._quota.is_in_use else repeated.next_position(now_ms, self._broker_epoch())
        if position is None or repeated.request is None:
            return False
        self._session.ask_again(repeated.name, position)
        repeated.position = position
        self._send_repeated(repeated, repeated.request)
        return True

    def _send_repeated(self, repeated: RepeatedPartition, request: RepeatedFetch) -> None:
        request.epoch, request.offset = self._session.epoch, repeated.position.offset
        self._send(request, self.settings.fetch_version, lambda response: self._fetched_again(response, repeated))

    def _fetched_again(self, response: Any, repeated: RepeatedPartition) -> None:
        if not isinstance(response, RepeatedAnswer):
            self._fetched(response, repeated.asked)
            repeated.look_ms = 0
            return
        self._session.answered(repeated.session_id)
        if self.partitions.get(repeated.name) is repeated.following:
            self._take(repeated.name, repeated.following, response)

    def _request(self, topics: list[FetchRequest.Topic], forgotten: list[FetchRequest.ForgottenTopicsData]) -> FetchRequest:
        settings = self.settings
        request = FetchRequest(
            max_wait_ms=settings.wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_max_bytes,
            session_id=self._session.session_id,
            session_epoch=self._session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        if settings.fetch_version >= REPLICA_EPOCH_VERSION:
            request.replica_state = FetchRequest.ReplicaState(replica_id=settings.broker_id, replica_epoch=self._broker_epoch())
        else:
            request.replica_id = settings.broker_id
        return request

    def _fetched(self, response: Any, asked: Asked) -> None:
        if response.error_code:
            code, is_session_over = response.error_code, response.error_code in SESSION_ERRORS and self._session.epoch > 0
            self._reset()
            if not is_session_over:
                logger.info("fetch from broker %d failed: %s (%d)", self.leader.broker_id, error_name(code), code)
                self._delay_all(asked)
            return
        self._session.answered(response.session_id)
        by_id = {following.topic_id: name.topic for name, following in asked.items()}
        for topic in response.responses:
            topic_name = topic.topic or by_id.get(topic.topic_id, "")
            for part in topic.partitions:
                name = TopicPartition(topic_name, part.partition_index)
                following = asked.get(name)
                # Told anew meanwhile, or no longer followed here: what the leader said is of the past.
                if following is not None and self.partitions.get(name) is following:
                    self._take(name, following, part)

    def _delay_all(self, names: Iterable[TopicPartition]) -> None:
        for name in names:
            self._delay(name)

    def _take(self, name: TopicPartition, following: Following, part: Any) -> None:
        if part.error_code:
            self._refused(name, following, part.error_code)
            return
        following.refusal = ErrorCode.NONE
        try:
            if part.diverging_epoch is not None and part.diverging_epoch.end_offset >= 0:
                following.diverged(part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
            else:
                size = following.fetched(part)
                if self._quota.is_throttled(name):
                    self._quota.record(size)
                self._on_progress(name, size)
        except KafkaStorage as error:
            self.remove(name)
            self._on_failed(name, error)
        except MilepostError as error:
            # Damaged on the way, or not what comes next: nothing was appended, so ask again.
            logger.warning("%s from broker %d: %s", name, self.leader.broker_id, error)
            self._delay(name)

    def _refused(self, name: TopicPartition, following: Following, code: int) -> None:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._ask_range(name, following)
        elif code == ErrorCode.FENCED_LEADER_EPOCH:
            logger.info("%s: fenced, leader epoch %d is stale; waiting for the next LeaderAndIsr", name, following.leader_epoch)
            self.remove(name)
        else:
            self._tell_once(name, following, code)
            self._delay(name)

    def _tell_once(self, name: TopicPartition, following: Following, code: int) -> None:
        """The same request is made until the answer changes: its operator should know what it waits for."""
        if code not in PASSING and code != following.refusal:
            logger.warning(
                "%s: broker %d answers a fetch from offset %d with %s (%d); trying again every %d ms",
                name,
                self.leader.broker_id,
                following.log.end_offset,
                error_name(code),
                code,
                self.settings.backoff_ms,
            )
        following.refusal = code

    # Where the leader's log begins and ends.

    def _ask_range(self, name: TopicPartition, following: Following) -> None:
        self._delay(name)

        def ask(timestamp: int, then: Callable[[int], object]) -> None:
            request = ListOffsetsRequest(
                replica_id=self.settings.broker_id,
                topics=[
                    ListOffsetsRequest.Topic(
                        name=name.topic,
                        partitions=[
                            ListOffsetsRequest.Topic.Partition(
                                partition_index=name.partition,
                                current_leader_epoch=following.leader_epoch,
                                timestamp=timestamp,
                            )
                        ],
                    )
                ],
            )

            def answered(response: Any) -> None:
                (part,) = response.topics[0].partitions
                if part.error_code == 0 and self.partitions.get(name) is following:
                    then(part.offset)

            self._peers.send(
                self.leader,
                request,
                self.settings.list_offsets_version,
                answered,
                lambda error: None,
                purpose=self.purpose,
            )

        def found(start: int, end: int) -> None:
            following.out_of_range(start, end)
            following.not_before_ms = 0
            self._go_on()

        ask(EARLIEST, lambda start: ask(LATEST, lambda end: found(start, end)))

    # Truncating before fetching (protocols before 2.7).

    def _ask_epochs(self, truncating: dict[TopicPartition, Following]) -> None:
        without = [each for each in truncating.values() if each.last_fetched_epoch < 0]
        for following in without:
            following.is_truncating = False  # nothing to compare: an empty log, or one without epochs
        asked = {name: each for name, each in truncating.items() if each.is_truncating}
        if not asked:
            self._go_on()
            return
        topics: dict[str, OffsetForLeaderEpochRequest.Topic] = {}
        for name, following in asked.items():
            topic = topics.setdefault(name.topic, OffsetForLeaderEpochRequest.Topic(topic=name.topic, partitions=[]))
            topic.partitions.append(
                OffsetForLeaderEpochRequest.Topic.Partition(
                    partition=name.partition,
                    current_leader_epoch=following.leader_epoch,
                    leader_epoch=following.last_fetched_epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=self.settings.broker_id, topics=list(topics.values()))
        self._send(request, self.settings.epoch_version, lambda response: self._epochs_told(response, asked))

    def _epochs_told(self, response: Any, asked: dict[TopicPartition, Following]) -> None:
        for topic in response.topics:
            for part in topic.partitions:
                name = TopicPartition(topic.topic, part.partition)
                following = asked.get(name)
                if following is None or self.partitions.get(name) is not following:
                    continue
                if part.error_code:
                    self._refused(name, following, part.error_code)
                elif following.diverged(part.leader_epoch, part.end_offset):
                    following.is_truncating = False
