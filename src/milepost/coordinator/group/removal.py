"""What goes: offsets that expired or were deleted, and groups nobody needs any more. Always by tombstones in the log first.

An offset expires `offsets.retention.minutes` after its group became empty; in a group that nobody ever joined, after it was
committed; and in a group with members, after it was committed if no member subscribes to its topic. An offset that a client gave
a time of its own expires then. One that an open transaction may change does not expire. A group without members goes with its
last offset.

    request        refused
    DeleteGroups   68 while the group has members, 69 when it is not there
    OffsetDelete   69; 68 for a group with members of another protocol than the consumers'; by partition 86 for a topic that a member
                   subscribes to, 3 for one that is not there
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from milepost.coordinator.classic.classic_records import commit_error, group_error, offset_tombstone
from milepost.coordinator.group.group_registry import Registry
from milepost.coordinator.group.runtime import logger
from milepost.coordinator.interfaces import Group, TopicNames, Work
from milepost.coordinator.offsets.committed_offsets import Commit, TopicPartition
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse, OffsetDeleteRequest, OffsetDeleteResponse

TOMBSTONES_AT_ONCE = 200
TOMBSTONE_BYTES_AT_ONCE = 262_144
TOPIC_BYTES = 250


class Removal:
    def __init__(self, registry: Registry, topics: TopicNames):
        self.registry = registry
        self.runtime = registry.runtime
        self.store = registry.offsets
        self.topics = topics

    # Time.

    def expiring(self) -> Work[None]:
        for group in list(self.registry.groups.values()):
            expired = []
            for where, commit in list(self.store.of(group.group_id).items()):
                if self._is_expired(group, where, commit):
                    expired.append(where)
                yield
            if expired or (group.is_empty and not self._left(group, set())):
                yield from self._removing(group, expired, self._is_expired_still, may_end=lambda group: group.is_empty)
            yield

    def _is_expired_still(self, group: Group, where: TopicPartition) -> bool:
        commit = self.store.of(group.group_id).get(where)
        return commit is not None and self._is_expired(group, where, commit)

    def _left(self, group: Group, without: set[TopicPartition]) -> list[TopicPartition]:
        group_id = group.group_id
        # In an order that does not change from run to run: the log is the same for the same requests.
        places = dict.fromkeys((*self.store.of(group_id), *sorted(self.store.pending_of(group_id))))
        return [where for where in places if where not in without]

    def _is_expired(self, group: Group, where: TopicPartition, commit: Commit) -> bool:
        if self.store.is_unstable(group.group_id, where) or group.is_subscribed_to(where[0]):
            return False
        now = self.runtime.now_ms()
        if commit.value.expire_timestamp >= 0:
            return now >= commit.value.expire_timestamp
        start = group.retention_start(commit.value)
        return start is not None and now - start >= self.runtime.settings.offsets_retention_ms

    def _removing(
        self,
        group: Group,
        places: Sequence[TopicPartition],
        is_wanted: Callable[[Group, TopicPartition], bool],
        gone: Gone | None = None,
        *,
        may_end: Callable[[Group], bool] = lambda _: False,
    ) -> Work[None]:
        """Take offsets out of the log and the store, some at a time; the group goes with the last if it `may_end`.

        Whether an offset `is_wanted` to go is asked when its turn has come: others are served in between, and commit.
        """
        gone = gone or Gone()
        for some, is_last in chunks(group.group_id, places):
            with self.runtime.outbox:
                if gone.error_code or self.registry.get(group.group_id) is not group:
                    return
                wanted = [where for where in some if is_wanted(group, where)]
                gone.places.update(wanted)
                gone.has_ended = is_last and may_end(group) and not self._left(group, gone.places)
                if wanted or gone.has_ended:
                    self._remove(group, wanted, gone)
            yield

    def _remove(self, group: Group, places: Sequence[TopicPartition], gone: Gone) -> None:
        now = self.runtime.now_ms()
        ends = gone.has_ended
        records = [offset_tombstone(group.group_id, *place, now) for place in places]
        if ends:
            records += group.tombstones(now)
        gone.in_flight += 1

        def written(error_code: int) -> None:
            gone.in_flight -= 1
            if error_code:
                logger.warning("group %s: tombstones could not be written: %s", group.group_id, error_name(error_code))
                gone.error_code = error_code
            else:
                for place in places:
                    self.store.remove(group.group_id, place)
                if ends and not self.store.has_any(group.group_id):
                    self.registry.drop(group)
            gone.check()

        self.runtime.write(group.group_id, records, written)

    # Requests.

    def topics_deleted(self, names: Iterable[str]) -> Work[None]:
        """What is committed from now on may be of a topic that was made again."""
        topics, now = set(names), self.store.next_position()

        def is_wanted(group: Group, where: TopicPartition) -> bool:
            commit = self.store.of(group.group_id).get(where)
            return commit is not None and commit.position < now

        for group in list(self.registry.groups.values()):
            places = []
            for where in list(self.store.of(group.group_id)):
                if where[0] in topics:
                    places.append(where)
                yield
            if places:
                yield from self._removing(group, places, is_wanted)
            yield

    def deleting_groups(self, request: DeleteGroupsRequest, answer: Callable[[DeleteGroupsResponse], None]) -> Work[None]:
        # One that is named again is answered once.
        results = [DeleteGroupsResponse.Result(group_id=group_id) for group_id in dict.fromkeys(request.groups_names)]
        undecided = len(results)

        def decided(result: DeleteGroupsResponse.Result, error_code: int) -> None:
            nonlocal undecided
            result.error_code = group_error(error_code)
            undecided -= 1
            if not undecided:
                self.runtime.outbox.put(answer, DeleteGroupsResponse(results=results))

        for result in results:
            yield from self._deleting_group(result.group_id, partial(decided, result))
            yield
        if not results:
            with self.runtime.outbox:
                self.runtime.outbox.put(answer, DeleteGroupsResponse(results=results))

    def _deleting_group(self, group_id: str, done: Callable[[int], None]) -> Work[None]:
        error = self.registry.unavailable(group_id)
        group = self.registry.get(group_id)
        if not error and group is not None:
            error = group.validate_delete()
        if error or group is None:
            with self.runtime.outbox:
                done(error or ErrorCode.GROUP_ID_NOT_FOUND)
            return

        def may_go(group: Group) -> bool:
            return not group.validate_delete()

        gone = Gone()
        while not gone.has_ended and not gone.error_code:
            # Once more when somebody has committed meanwhile.
            places = self._left(group, gone.places)
            # Not `is_empty`: a member id that was given out keeps a group from expiring, and not from being deleted.
            yield from self._removing(group, places, lambda group, _: may_go(group), gone, may_end=may_go)
            if self.registry.get(group_id) is not group:
                break  # it is gone, or another coordinator's
            gone.error_code = gone.error_code or group.validate_delete()
        with self.runtime.outbox:
            if not gone.has_ended and not gone.error_code:
                gone.error_code = self.registry.unavailable(group_id)
            gone.when_all_written(done)

    def deleting_offsets(self, request: OffsetDeleteRequest, answer: Callable[[OffsetDeleteResponse], None]) -> Work[None]:
        error = self.registry.refusal(request.group_id)
        group = self.registry.get(request.group_id)
        if not error and group is not None:
            error = group.validate_offset_delete()
        response = OffsetDeleteResponse(error_code=error, topics=[])
        if error or group is None:
            response.error_code = error or ErrorCode.GROUP_ID_NOT_FOUND
            with self.runtime.outbox:
                self.runtime.outbox.put(answer, response)
            return
        committed = self.store.of(request.group_id)
        deleted: dict[TopicPartition, OffsetDeleteResponse.Topic.Partition] = {}
        for topic in request.topics:
            answered = OffsetDeleteResponse.Topic(name=topic.name, partitions=[])
            response.topics.append(answered)
            is_subscribed = group.is_subscribed_to(topic.name)
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                result = OffsetDeleteResponse.Topic.Partition(partition_index=partition.partition_index)
                answered.partitions.append(result)
                if is_subscribed:
                    result.error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                elif place in committed:
                    deleted[place] = result
                elif not self.topics.has_partition(*place):
                    result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                yield
            yield

        def is_wanted(group: Group, where: TopicPartition) -> bool:
            if not group.is_subscribed_to(where[0]):
                return True
            deleted[where].error_code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            return False

        gone = Gone()
        yield from self._removing(group, list(deleted), is_wanted, gone)

        def done(error_code: int) -> None:
            if error_code:
                for result in deleted.values():
                    result.error_code = result.error_code or commit_error(error_code)
            self.runtime.outbox.put(answer, response)

        with self.runtime.outbox:
            if self.registry.get(request.group_id) is not group and not gone.has_ended:
                gone.error_code = gone.error_code or ErrorCode.NOT_COORDINATOR
            gone.when_all_written(done)


@dataclass(slots=True)
class Gone:
    """How far a removal has come."""

    places: set[TopicPartition] = field(default_factory=set)
    """What has a tombstone, written or on its way."""
    has_ended: bool = False
    """The group's own tombstone is among them."""
    error_code: int = ErrorCode.NONE
    in_flight: int = 0
    _done: Callable[[int], None] | None = None

    def when_all_written(self, done: Callable[[int], None]) -> None:
        self._done = done
        self.check()

    def check(self) -> None:
        if self._done is not None and not self.in_flight:
            self._done(self.error_code)


def chunks(group_id: str, places: Sequence[TopicPartition]) -> Iterator[tuple[Sequence[TopicPartition], bool]]:
    """As many as go into a batch that no log refuses, at least one chunk; and whether it is the last."""
    each = max(1, min(TOMBSTONES_AT_ONCE, TOMBSTONE_BYTES_AT_ONCE // (len(group_id) + TOPIC_BYTES)))
    for first in range(0, max(len(places), 1), each):
        yield places[first : first + each], first + each >= len(places)
