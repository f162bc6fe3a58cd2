"""Which groups this coordinator looks after, and how they come and go with the partitions of `__consumer_offsets`.

A group belongs to one partition (see `hashing`); the leader of that partition coordinates the group.

    partition is     requests get
    not ours         16 NOT_COORDINATOR
    being loaded     14 COORDINATOR_LOAD_IN_PROGRESS
    loaded           an answer
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from milepost.coordinator.classic.classic_group import ClassicGroup
from milepost.coordinator.classic.rebalancing import Rebalancer
from milepost.coordinator.group.group_loading import PartitionLoader, group_from
from milepost.coordinator.group.runtime import GroupRuntime
from milepost.coordinator.interfaces import ConsumerGroupService, Group
from milepost.coordinator.offsets.committed_offsets import OffsetStore
from milepost.protocol.error_codes import ErrorCode


class Registry:
    def __init__(self, runtime: GroupRuntime, rebalancer: Rebalancer, offsets: OffsetStore):
        self.runtime = runtime
        self.rebalancer = rebalancer
        self.offsets = offsets
        self.groups: dict[str, Group] = {}
        self.consumer_groups: ConsumerGroupService | None = None
        self._loading: dict[int, list[Callable[[], object]]] = {}
        """Partitions being loaded, and what is to be done when they are."""
        self._loaded: set[int] = set()
        self._expected: set[int] = set()
        rebalancer.forgotten = self.drop_unused
        self.unloads = 0
        """How many partitions went elsewhere so far: who reads in pieces sees whether groups went meanwhile."""

    # Groups.

    def get(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)

    def create(self, group_id: str) -> ClassicGroup:
        group = ClassicGroup(group_id, self.runtime.now_ms())
        self.groups[group_id] = group
        return group

    def drop(self, group: Group) -> None:
        self.groups.pop(group.group_id, None)
        close = partial(self.rebalancer.close, group) if isinstance(group, ClassicGroup) else group.close
        for answer, response in close(ErrorCode.NOT_COORDINATOR):
            self.runtime.outbox.put(answer, response)

    def drop_unused(self, group: ClassicGroup) -> None:
        """Unless anything is there but its name: it was asked for by somebody who was refused, or did not come back."""
        is_unused = group.generation == 0 and group.is_empty and not self.offsets.has_any(group.group_id)
        if is_unused and self.groups.get(group.group_id) is group:
            self.drop(group)

    def unavailable(self, group_id: str) -> int:
        """The error of a request about a group that is not ours, or not yet."""
        partition = self.runtime.partition_for(group_id)
        if partition in self._loaded:
            return ErrorCode.NONE
        is_loading = partition in self._loading or partition in self._expected
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR

    def refusal(self, group_id: str) -> int:
        """The same for requests that need a group's id; offsets may be kept under the empty one."""
        return self.unavailable(group_id) if group_id else ErrorCode.INVALID_GROUP_ID

    # Partitions.

    @property
    def is_loading(self) -> bool:
        return bool(self._loading or self._expected)

    @property
    def partitions(self) -> list[int]:
        return [*self._loading, *self._loaded]

    def expect(self, partition: int) -> None:
        """It is ours, and will be loaded when it may be."""
        if partition not in self._loading and partition not in self._loaded:
            self._expected.add(partition)

    def load(self, partition: int) -> None:
        self._expected.discard(partition)
        if partition in self._loading or partition in self._loaded:
            return
        then = self._loading[partition] = []
        loader = PartitionLoader(partition, self.runtime.log.batches(partition), self.offsets, self.consumer_groups)
        self._load_on(loader, then)

    def _load_on(self, loader: PartitionLoader, then: list[Callable[[], object]]) -> None:
        if self._loading.get(loader.partition) is not then:
            return  # unloaded meanwhile
        if not loader.step():
            self.runtime.later(0, lambda: self._load_on(loader, then))
            return
        for group_id, value in loader.found.items():
            self._start(group_from(group_id, value))
        for group_id in loader.with_offsets:
            if group_id not in self.groups and self.offsets.has_any(group_id):
                self.create(group_id)
        if self.consumer_groups is not None:
            self.consumer_groups.loaded(loader.partition)
        del self._loading[loader.partition]
        self._loaded.add(loader.partition)
        for task in then:
            task()

    def _start(self, group: ClassicGroup) -> None:
        """A group from the log: its members have a session from now on to show themselves."""
        self.groups[group.group_id] = group
        for member in group.members.values():
            self.rebalancer.start_session(group, member)
        if len(group.members) > self.runtime.settings.max_size:
            self.rebalancer.rebalance(group, "it has more members than group.max.size allows now")

    def unload(self, partition: int) -> None:
        self.unloads += 1
        self._loading.pop(partition, None)
        self._loaded.discard(partition)
        self._expected.discard(partition)
        for group in [group for group_id, group in self.groups.items() if self.runtime.partition_for(group_id) == partition]:
            self.drop(group)
        for group_id in self.offsets.groups():
            if self.runtime.partition_for(group_id) == partition:
                self.offsets.forget(group_id)

    def complete_transaction(self, producer_id: int, partition: int, committed: bool) -> None:
        complete = partial(self.offsets.complete, (partition, producer_id), committed)
        if partition in self._loading:
            # The loader may or may not come to the marker itself; ending a transaction twice changes nothing.
            self._loading[partition].append(complete)
        else:
            complete()
