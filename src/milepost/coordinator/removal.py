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

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from milepost.coordinator.group_records import commit_error, group_error, offset_tombstone
from milepost.coordinator.interfaces import Group, TopicNames
from milepost.coordinator.offsets import Commit, TopicPartition
from milepost.coordinator.registry import Registry
from milepost.coordinator.runtime import logger
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.messages import DeleteGroupsRequest, DeleteGroupsResponse, OffsetDeleteRequest, OffsetDeleteResponse


class Removal:
    def __init__(self, registry: Registry, topics: TopicNames):
        self.registry = registry
        self.runtime = registry.runtime
        self.store = registry.offsets
        self.topics = topics

    # Time.

    def expire(self) -> None:
        for group in list(self.registry.groups.values()):
            offsets = self.store.of(group.group_id)
            expired = [where for where, commit in offsets.items() if self._is_expired(group, where, commit)]
            ends = group.is_empty and len(expired) == len(offsets) and not self.store.pending_of(group.group_id)
            if expired or ends:
                self._remove(group, expired, ends=ends)

    def _is_expired(self, group: Group, where: TopicPartition, commit: Commit) -> bool:
        if self.store.is_unstable(group.group_id, where) or group.is_subscribed_to(where[0]):
            return False
        now = self.runtime.now_ms()
        if commit.value.expire_timestamp >= 0:
            return now >= commit.value.expire_timestamp
        start = group.retention_start(commit.value)
        return start is not None and now - start >= self.runtime.settings.offsets_retention_ms

    def _remove(
        self,
        group: Group,
        places: Sequence[TopicPartition],
        *,
        ends: bool = False,
        done: Callable[[int], None] = lambda error_code: None,
    ) -> None:
        """Take offsets out of the log and the store, and the group too if it `ends`."""
        now = self.runtime.now_ms()
        records = [offset_tombstone(group.group_id, *place, now) for place in places]
        if ends:
            records += group.tombstones(now)

        def written(error_code: int) -> None:
            if error_code:
                logger.warning("group %s: tombstones could not be written: %s", group.group_id, error_name(error_code))
            else:
                for place in places:
                    self.store.remove(group.group_id, place)
                if ends:
                    self.registry.drop(group)
            done(error_code)

        self.runtime.write(group.group_id, records, written)

    # Requests.

    def topics_deleted(self, names: Iterable[str]) -> None:
        gone = set(names)
        for group in list(self.registry.groups.values()):
            places = [where for where in self.store.of(group.group_id) if where[0] in gone]
            if places:
                self._remove(group, places)

    def delete_groups(self, request: DeleteGroupsRequest, answer: Callable[[DeleteGroupsResponse], None]) -> None:
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
            self._delete_group(result.group_id, partial(decided, result))
        if not results:
            self.runtime.outbox.put(answer, DeleteGroupsResponse(results=results))

    def _delete_group(self, group_id: str, done: Callable[[int], None]) -> None:
        error = self.registry.unavailable(group_id)
        group = self.registry.get(group_id)
        if not error and group is not None:
            error = group.validate_delete()
        if error or group is None:
            done(error or ErrorCode.GROUP_ID_NOT_FOUND)
        else:
            places = sorted({*self.store.of(group_id), *self.store.pending_of(group_id)})
            self._remove(group, places, ends=True, done=done)

    def delete_offsets(self, request: OffsetDeleteRequest, answer: Callable[[OffsetDeleteResponse], None]) -> None:
        error = self.registry.refusal(request.group_id)
        group = self.registry.get(request.group_id)
        if not error and group is not None:
            error = group.validate_offset_delete()
        response = OffsetDeleteResponse(error_code=error, topics=[])
        if error or group is None:
            response.error_code = error or ErrorCode.GROUP_ID_NOT_FOUND
            self.runtime.outbox.put(answer, response)
            return
        committed = self.store.of(request.group_id)
        deleted = {}
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

        def done(error_code: int) -> None:
            for result in deleted.values():
                result.error_code = commit_error(error_code)
            self.runtime.outbox.put(answer, response)

        if deleted:
            self._remove(group, list(deleted), done=done)
        else:
            done(ErrorCode.NONE)
