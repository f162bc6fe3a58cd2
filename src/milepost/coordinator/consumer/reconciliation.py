"""One step of one member towards its target assignment.

    state                  goes on when                          and then
    Stable                 the target has a newer epoch, or      looks at the target
                           has lost partitions that it has
    UnrevokedPartitions    the member says what it owns, and     its epoch rises by one, never past the target's, and it looks at the
                           none of it is to be given up          target, which may have changed meanwhile
    UnreleasedPartitions   always                                looks at the target

Looking at the target:

    it has to give up partitions, and owns them   UnrevokedPartitions: it keeps the rest, in its old epoch
    all it should have is free, or its own        Stable: it gets everything, in the epoch of the target
    others still hold some of it                  UnreleasedPartitions: it gets what is free, in the epoch of the target

So a partition is given to a member only after the one before has said that it stopped working on it, or is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from milepost.coordinator.consumer.consumer_member import NOTHING, ConsumerMember, MemberState, Partitions
from milepost.coordinator.interfaces import Work

Free = Callable[[Partitions, str], Work[Partitions]]
STABLE, UNREVOKED, UNRELEASED = MemberState


def next_step(
    member: ConsumerMember,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    free: Free,
) -> Work[ConsumerMember]:
    """`owned` is what the member says it owns, None when it does not say; `free` knows which of some partitions no other member holds."""
    if member.state is UNREVOKED:
        if owned is None or not owned.isdisjoint(member.pending_revocation):
            return member
        return (yield from look(member, min(member.epoch + 1, target_epoch), target_epoch, target, owned, free))
    if member.has_reached(target_epoch) and member.assigned <= target:
        return member
    return (yield from look(member, member.epoch, target_epoch, target, owned, free))


def look(
    member: ConsumerMember,
    epoch: int,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    free: Free,
) -> Work[ConsumerMember]:
    kept = member.assigned & target
    yield
    surplus = member.assigned - target
    yield
    if surplus and (owned is None or not owned.isdisjoint(surplus)):
        return moved(member, epoch, UNREVOKED, kept, surplus)
    wanted = target - kept
    yield
    given = yield from free(wanted, member.member_id)
    return moved(member, target_epoch, STABLE if len(given) == len(wanted) else UNRELEASED, kept | given, NOTHING)


def moved(
    member: ConsumerMember, epoch: int, state: MemberState, assigned: Partitions, pending_revocation: Partitions
) -> ConsumerMember:
    return replace(
        member,
        epoch=epoch,
        previous_epoch=member.previous_epoch if epoch == member.epoch else member.epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )
