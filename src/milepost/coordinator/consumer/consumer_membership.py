"""What all requests to a consumer group share: members come and go, timers run, changes are written.

    timer        runs from                        when it ends
    session      each sign of life of a member    the member is removed, and the epoch rises
    revocation   the member has to give up        the same, if it is in that epoch still; the member's own rebalance timeout
                 partitions
    rejoin       a classic member has to join     the same; the member's rebalance timeout again
                 or to sync again

What cannot be written is taken back. When only members of the classic protocol are left, the group becomes a classic one again, if
`group.consumer.migration.policy` allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from milepost.coordinator.classic.classic_group import ClassicGroup
from milepost.coordinator.classic.classic_records import group_record
from milepost.coordinator.consumer import consumer_targets
from milepost.coordinator.consumer.consumer_change import Change
from milepost.coordinator.consumer.consumer_group import ConsumerGroup
from milepost.coordinator.consumer.consumer_member import ConsumerMember, MemberState, Partitions
from milepost.coordinator.consumer.consumer_settings import ConsumerGroupSettings
from milepost.coordinator.consumer.consumer_targets import ClusterTopics
from milepost.coordinator.consumer.reconciliation import next_step
from milepost.coordinator.group.group_registry import Registry
from milepost.coordinator.group.migration import classic_group_from
from milepost.coordinator.group.runtime import logger
from milepost.coordinator.interfaces import Work
from milepost.loop import Timer
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.work import at_once


class ConsumerMembership:
    def __init__(self, registry: Registry, cluster: ClusterTopics, settings: ConsumerGroupSettings):
        self.registry = registry
        self.runtime = registry.runtime
        self.cluster = cluster
        self.settings = settings
        self._own_settings: dict[str, ConsumerGroupSettings] = {}

    # Settings.

    def settings_of(self, group_id: str) -> ConsumerGroupSettings:
        return self._own_settings.get(group_id, self.settings)

    def use_settings(self, group_id: str, settings: ConsumerGroupSettings | None) -> None:
        """Settings of its own for a group, or none any more; they hold from the next heartbeat of each member on."""
        if settings is None:
            self._own_settings.pop(group_id, None)
        else:
            self._own_settings[group_id] = settings

    def is_behind(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        interval_ms = self.settings_of(group.group_id).assignment_interval_ms
        return consumer_targets.is_behind(group, member, interval_ms, self.runtime.now_ms())

    # Members.

    def taking_in(self, change: Change, known: ConsumerMember | None, member: ConsumerMember) -> Work[None]:
        """Who the member is and what it wants; a new epoch if need be, and new targets if it is time."""
        if known is not None and known.member_id != member.member_id:
            yield from change.replace_static(known, member)
        elif known is not None and known.is_away:
            yield from change.member(member)
            yield from change.assignment(member)
        elif known != member:
            yield from change.member(member)
        has_changed = known is None or (known.topic_names, known.topic_regex) != (member.topic_names, member.topic_regex)
        yield from consumer_targets.decide_epoch(change, self.cluster, has_changed=has_changed)
        interval_ms = self.settings_of(change.group.group_id).assignment_interval_ms
        yield from consumer_targets.assign(change, self.cluster, self.settings.assignors, interval_ms)

    def stepping(self, change: Change, member_id: str, owned: Partitions | None) -> Work[ConsumerMember]:
        """One step towards the target."""
        group = change.draft
        member = group.members[member_id]
        target = yield from consumer_targets.target_in_force(group, member, self.cluster)
        stepped = yield from next_step(member, group.target_epoch, target, owned, group.free)
        if stepped != member:
            yield from change.assignment(stepped)
        return stepped

    def commit(self, change: Change, known: ConsumerMember | None, stepped: ConsumerMember) -> None:
        """What was prepared for this member is so from now on, timers too."""
        group = change.group
        before = group.members.get(stepped.member_id)
        change.commit()
        if known is not None and known.member_id != stepped.member_id:
            self.stop_timers(group, known.member_id)
        if before is None or before.standing != stepped.standing:
            stop(group.revocations, stepped.member_id)
            self._watch_revocation(group, stepped)
        self.start_session(group, stepped.member_id)

    def remove(
        self,
        group: ConsumerGroup,
        members: Collection[ConsumerMember],
        reason: str,
        done: Callable[[int], None] = lambda error_code: None,
    ) -> None:
        """Their partitions are free, and at the next heartbeat of any member that finds it time they are somebody else's."""
        for member in members:
            logger.info("group %s, epoch %d: %s %s", group.group_id, group.epoch, member.member_id, reason)
            self.stop_timers(group, member.member_id)
        gone = [member.member_id for member in members]
        if self.has_only_classic_members(group, gone):
            self.downgrade(group, gone, done)
            return
        change = Change(group, self.runtime.now_ms())
        for member_id in gone:
            at_once(change.remove(member_id))
        at_once(consumer_targets.decide_epoch(change, self.cluster, has_changed=True))
        change.commit()

        def written(error_code: int) -> None:
            if error_code:
                logger.warning("group %s: a removal could not be written: %s", group.group_id, error_name(error_code))
            done(error_code)

        self.write(change, written)

    # From one protocol to the other.

    def has_only_classic_members(self, group: ConsumerGroup, without: Collection[str] = ()) -> bool:
        """Whether it could be a classic group, and may."""
        left = [member for member in group.members.values() if member.member_id not in without]
        may = self.settings.may_downgrade and len(left) <= self.runtime.settings.max_size
        return may and bool(left) and all(member.classic is not None for member in left)

    def downgrade(self, group: ConsumerGroup, without: Collection[str], done: Callable[[int], None]) -> None:
        """The members go on as a classic group, which rebalances at once."""
        now = self.runtime.now_ms()
        members = [member for member in group.members.values() if member.member_id not in without]
        classic = classic_group_from(group, members, self.cluster, now)
        assignments = {member.member_id: member.assignment for member in classic.members.values()}

        def written(error_code: int) -> None:
            if error_code:
                logger.warning("group %s: its downgrade could not be written: %s", group.group_id, error_name(error_code))
                self.tend(group)
            elif self.registry.get(group.group_id) is group:
                self.registry.drop(group)
                self.start_classic(classic, "it was downgraded")
            done(error_code)

        self.runtime.write(group.group_id, [*group.tombstones(now), group_record(classic, assignments, now)], written)

    def start_classic(self, group: ClassicGroup, reason: str) -> None:
        self.registry.groups[group.group_id] = group
        for member in group.members.values():
            self.registry.rebalancer.start_session(group, member)
        self.registry.rebalancer.prepare(group, reason)

    # Timers.

    def start_session(self, group: ConsumerGroup, member_id: str) -> None:
        stop(group.sessions, member_id)
        classic = group.members[member_id].classic

        def end() -> None:
            del group.sessions[member_id]
            self.remove(group, [group.members[member_id]], "was not heard of in time")

        timeout = self.settings_of(group.group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
        group.sessions[member_id] = self.runtime.later(timeout, end)

    def _watch_revocation(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            return

        def end() -> None:
            del group.revocations[member.member_id]
            if group.members[member.member_id].epoch == member.epoch:
                self.remove(group, [group.members[member.member_id]], "did not give up its partitions in time")

        group.revocations[member.member_id] = self.runtime.later(member.rebalance_timeout_ms, end)

    def expect_rejoin(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """A classic member was told to join or sync; the first time it is told counts."""
        if member.member_id in group.rejoins:
            return

        def end() -> None:
            del group.rejoins[member.member_id]
            self.remove(group, [group.members[member.member_id]], "did not join or sync again in time")

        group.rejoins[member.member_id] = self.runtime.later(member.rebalance_timeout_ms, end)

    def has_rejoined(self, group: ConsumerGroup, member_id: str) -> None:
        stop(group.rejoins, member_id)

    def stop_timers(self, group: ConsumerGroup, member_id: str) -> None:
        for timers in (group.sessions, group.revocations, group.rejoins):
            stop(timers, member_id)

    def tend(self, group: ConsumerGroup) -> None:
        """Timers for those who are there, as after a start; none for the others."""
        for member_id in {*group.sessions, *group.revocations, *group.rejoins} - set(group.members):
            self.stop_timers(group, member_id)
        for member in group.members.values():
            if member.member_id not in group.sessions:
                self.start_session(group, member.member_id)
            if member.member_id not in group.revocations:
                self._watch_revocation(group, member)

    # The log.

    def write(self, change: Change, done: Callable[[int], None]) -> None:
        """Of what was committed. `done` when the change is in the log, and with it everything the answer tells of."""
        group = change.group
        if not change.records:
            if group.writes_in_flight:
                group.after_writes.append(done)
            else:
                done(ErrorCode.NONE)
            return
        group.writes_in_flight += 1

        def written(error_code: int) -> None:
            group.writes_in_flight -= 1
            if group.is_dead:
                error_code = error_code or ErrorCode.NOT_COORDINATOR
            elif error_code:
                if change.before is not None:
                    group.restore(change.before)
                self.tend(group)
            done(error_code)
            if not group.writes_in_flight:
                waiting, group.after_writes = group.after_writes, []
                for each in waiting:
                    each(error_code)

        self.runtime.write(group.group_id, change.records, written)


def stop(timers: dict[str, Timer], member_id: str) -> None:
    timer = timers.pop(member_id, None)
    if timer is not None:
        timer.cancel()
