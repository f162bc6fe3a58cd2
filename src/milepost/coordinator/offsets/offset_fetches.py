"""OffsetFetch: the committed offsets of groups.

    nothing committed                         -1, without an error
    a transaction that is not decided yet     88 for that partition, when the client asks for stable offsets (version 7)
    topics null (version 2)                   everything the group has committed; from version 10 without topics that have no id any more
    an unknown topic id (version 10)          100
    the whole group fails                     the error at the top (2 to 7) or with the group (8 on), and no topics: never a plain -1,
                                              which would send the consumer back to the beginning; in version 1 with every partition

Version 8 asks for several groups at once. Inside, everything has the form of the newest version.
"""

from __future__ import annotations

from milepost.coordinator.group.group_registry import Registry
from milepost.coordinator.interfaces import TopicNames, Work
from milepost.coordinator.offsets.committed_offsets import TopicPartition
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import OffsetFetchRequest, OffsetFetchResponse

Asked = OffsetFetchRequest.Group
Fetched = OffsetFetchResponse.Group
Partition = OffsetFetchResponse.Group.Topic.Partition


class OffsetFetches:
    def __init__(self, registry: Registry, topics: TopicNames):
        self.registry = registry
        self.store = registry.offsets
        self.topics = topics

    def fetching(self, request: OffsetFetchRequest, version: int) -> Work[OffsetFetchResponse]:
        stable = version >= 7 and request.require_stable
        if version >= 8:
            groups = []
            for asked in request.groups:
                groups.append((yield from self._fetching_group(asked, version, stable)))
                yield
            return OffsetFetchResponse(groups=groups)
        fetched = yield from self._fetching_group(single(request), version, stable)
        error = fetched.error_code
        if error and version < 2:
            fetched = failed(single(request), error)
        topics = []
        for topic in fetched.topics:
            partitions = []
            for partition in topic.partitions:
                partitions.append(old_form(partition))
                yield
            topics.append(OffsetFetchResponse.Topic(name=topic.name, partitions=partitions))
        return OffsetFetchResponse(error_code=error if version >= 2 else ErrorCode.NONE, topics=topics)

    def _fetching_group(self, asked: Asked, version: int, stable: bool) -> Work[Fetched]:
        """Offsets that are gone because the group is gone elsewhere are no offsets that were never committed: then ask again."""
        group_id = asked.group_id
        error = self.registry.unavailable(group_id)
        group = self.registry.get(group_id)
        if not error and group is not None:
            error = group.validate_fetch(asked.member_id, asked.member_epoch)
        if error:
            return Fetched(group_id=group_id, error_code=error, topics=[])
        with_ids, unloads = version >= 10, self.registry.unloads
        topics = yield from (
            self._all(group_id, with_ids, stable) if asked.topics is None else self._some(asked, with_ids, stable)
        )
        if self.registry.unloads != unloads:
            return Fetched(group_id=group_id, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, topics=[])
        return Fetched(group_id=group_id, topics=topics)

    def _some(self, asked: Asked, with_ids: bool, stable: bool) -> Work[list[Fetched.Topic]]:
        found = []
        for topic in asked.topics or []:
            name = self.topics.name_of(topic.topic_id) if with_ids else topic.name
            partitions = []
            for index in topic.partition_indexes:
                unknown = nothing(index, ErrorCode.UNKNOWN_TOPIC_ID) if name is None else None
                partitions.append(unknown or self._one(asked.group_id, (name or "", index), stable))
                yield
            found.append(Fetched.Topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
            yield
        return found

    def _all(self, group_id: str, with_ids: bool, stable: bool) -> Work[list[Fetched.Topic]]:
        by_topic: dict[str, set[int]] = {}
        for name, index in (*self.store.of(group_id), *(self.store.pending_of(group_id) if stable else ())):
            by_topic.setdefault(name, set()).add(index)
            yield
        found = []
        for name in sorted(by_topic):
            topic_id = self.topics.id_of(name) if with_ids else bytes(16)
            if topic_id is None:
                continue
            partitions = []
            for index in sorted(by_topic[name]):
                partitions.append(self._one(group_id, (name, index), stable))
                yield
            found.append(Fetched.Topic(name=name, topic_id=topic_id, partitions=partitions))
        return found

    def _one(self, group_id: str, place: TopicPartition, stable: bool) -> Partition:
        if stable and self.store.is_unstable(group_id, place):
            return nothing(place[1], ErrorCode.UNSTABLE_OFFSET_COMMIT)
        commit = self.store.of(group_id).get(place)
        if commit is None:
            return nothing(place[1])
        value = commit.value
        return Partition(
            partition_index=place[1],
            committed_offset=value.offset,
            committed_leader_epoch=value.leader_epoch,
            metadata=value.metadata,
        )


def nothing(partition: int, error_code: int = ErrorCode.NONE) -> Partition:
    return Partition(
        partition_index=partition, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error_code
    )


def single(request: OffsetFetchRequest) -> Asked:
    """A request of version 1 to 7 as one of version 8."""
    if request.topics is None:
        return Asked(group_id=request.group_id, topics=None)
    topics = [Asked.Topic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics]
    return Asked(group_id=request.group_id, topics=topics)


def failed(asked: Asked, error_code: int) -> Fetched:
    """For version 1, which has no other place for the error."""
    topics = [
        Fetched.Topic(name=topic.name, partitions=[nothing(index, error_code) for index in topic.partition_indexes])
        for topic in asked.topics or []
    ]
    return Fetched(group_id=asked.group_id, topics=topics)


def old_form(partition: Partition) -> OffsetFetchResponse.Topic.Partition:
    return OffsetFetchResponse.Topic.Partition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
