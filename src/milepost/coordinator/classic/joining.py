"""JoinGroup in the classic protocol: who may join, under which id, and whether the group has to rebalance for it.

    the request has                    and                          then
    no member id, no instance id       version 4 or later           79 with a fresh id, to be used in the next join (KIP-394)
                                       version 0 to 3               a new member
    no member id, an instance id       the instance is not known    a new static member
                                       it is known                  the member gets a new id, the old one is fenced (82); no rebalance
                                                                    in a stable group when protocol and topics stay as they are
    a member id                        it is pending                a new member
                                       its metadata has changed,    rebalance
                                       or it leads a stable group
                                       nothing has changed          the current generation again: its last answer was lost

A member id is the instance id, or else the client id (the first MAX_NAME characters: it has to fit a string again), with a dash
and a uuid behind it; clients take it apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from milepost.coordinator.classic.classic_group import DEAD, EMPTY, PREPARING, STABLE, ClassicGroup, topics_in
from milepost.coordinator.classic.classic_member import ClassicMember, Protocols, metadata_bytes
from milepost.coordinator.classic.classic_records import group_error, group_record
from milepost.coordinator.classic.rebalancing import Rebalancer, join_answer_for
from milepost.coordinator.group.group_settings import NEW_MEMBER_TIMEOUT_MS
from milepost.coordinator.group.runtime import GroupRuntime
from milepost.coordinator.interfaces import Client
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import JoinGroupRequest, JoinGroupResponse

Answer = Callable[[JoinGroupResponse], None]
MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class Join:
    """A request to join, in the terms of the newest version."""

    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    version: int
    client: Client
    answer: Answer

    @classmethod
    def of(cls, request: JoinGroupRequest, version: int, client: Client, answer: Answer) -> Join:
        def answer_in_version(response: JoinGroupResponse) -> None:
            if response.error_code:
                response.protocol_name = None if version >= 7 else ""
            answer(response)

        return cls(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            session_timeout_ms=request.session_timeout_ms,
            # Version 0 has one timeout for both.
            rebalance_timeout_ms=request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
            version=version,
            client=client,
            answer=answer_in_version,
        )


class Joining:
    def __init__(self, runtime: GroupRuntime, rebalancer: Rebalancer):
        self.runtime = runtime
        self.rebalancer = rebalancer

    def join(self, group: ClassicGroup, join: Join) -> None:
        """Answer now, or leave the answer with the member until the rebalance is complete."""
        if group.state is DEAD:
            self._refuse(join, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not self._has_room(group, join):
            if join.member_id in group.pending:
                self.rebalancer.forget_pending(group, join.member_id)
            self._refuse(join, ErrorCode.GROUP_MAX_SIZE_REACHED, member_id="")
        elif not group.supports(join.protocol_type, join.protocols):
            self._refuse(join, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif join.member_id:
            self._join_known(group, join)
        else:
            self._join_unknown(group, join)

    def _refuse(self, join: Join, error_code: int, member_id: str | None = None) -> None:
        response = JoinGroupResponse(error_code=error_code, member_id=join.member_id if member_id is None else member_id)
        self.runtime.outbox.put(join.answer, response)

    def _has_room(self, group: ClassicGroup, join: Join) -> bool:
        member_id = join.member_id
        member = group.members.get(member_id)
        known = metadata_bytes(member.protocols) if member is not None else 0
        if group.metadata_bytes - known + metadata_bytes(join.protocols) > self.runtime.settings.max_metadata_bytes:
            return False
        most = self.runtime.settings.max_size
        if not member_id and len(group.pending) >= most:
            return False  # ids cost memory before anybody comes back with them
        if group.state is EMPTY:
            return True
        if group.state is PREPARING:
            # Places are taken by who has rejoined: an old member may find its own taken.
            return (member is not None and member.join_answer is not None) or group.awaiting_join < most
        return member is not None or len(group.members) < most

    # Newcomers.

    def _join_unknown(self, group: ClassicGroup, join: Join) -> None:
        name = join.client.client_id if join.instance_id is None else join.instance_id
        member_id = f"{name[:MAX_NAME]}-{self.runtime.new_id()}"
        known = group.static_member(join.instance_id)
        if known is not None:
            self._replace_static(group, known, member_id, join)
        elif join.instance_id is None and join.version >= 4:
            self.rebalancer.expect(group, member_id, join.session_timeout_ms)
            self._refuse(join, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(group, member_id, join)

    def _add(self, group: ClassicGroup, member_id: str, join: Join) -> None:
        member = ClassicMember(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client.client_id,
            client_host=join.client.host,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocols=join.protocols,
            is_new=True,
            join_answer=join.answer,
        )
        group.add(member, join.protocol_type)
        group.newcomers = True
        self.rebalancer.start_session(group, member, NEW_MEMBER_TIMEOUT_MS)
        self.rebalancer.rebalance(group, f"{member_id} joined")

    # Members.

    def _join_known(self, group: ClassicGroup, join: Join) -> None:
        if self.rebalancer.comes_back(group, join.member_id):
            if join.instance_id is not None and join.instance_id in group.static_members:
                # The id was given to a dynamic member; it does not turn into somebody else.
                self._refuse(join, ErrorCode.FENCED_INSTANCE_ID)
                return
            self._add(group, join.member_id, join)
            return
        error = group.validate_member(join.member_id, join.instance_id)
        if error:
            self._refuse(join, error)
            return
        member = group.members[join.member_id]
        has_changed = member.protocols != join.protocols
        if group.state is PREPARING or has_changed or (group.state is STABLE and group.leader_id == member.member_id):
            self._update(group, member, join)
            self.rebalancer.rebalance(group, f"{member.member_id} joined again")
        else:
            self.runtime.outbox.put(join.answer, join_answer_for(group, member))

    def _update(self, group: ClassicGroup, member: ClassicMember, join: Join) -> None:
        if member.join_answer is not None:
            # An older join of the same member, most likely on a connection that is gone.
            self.rebalancer.owe(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        group.set_join_answer(member, join.answer)

    def _replace_static(self, group: ClassicGroup, member: ClassicMember, member_id: str, join: Join) -> None:
        """A static member has come back under a new id."""
        before = (member.member_id, member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        leader_before = group.leader_id
        protocol, topics = group.protocol_name, topics_of(member, group.protocol_name)
        self.rebalancer.owe(group, member, ErrorCode.FENCED_INSTANCE_ID)
        group.replace_static(member, member_id)
        group.update(member, join.protocols, join.rebalance_timeout_ms, join.session_timeout_ms)
        self.rebalancer.start_session(group, member)
        stays = group.state is STABLE and group.select_protocol() == protocol and topics_of(member, protocol) == topics
        if not stays:
            # In CompletingRebalance too: the leader may be assigning to the old id.
            group.set_join_answer(member, join.answer)
            self.rebalancer.rebalance(group, f"static member {join.instance_id} joined as {member_id}")
            return

        def stored(error_code: int) -> None:
            if group.state is DEAD:
                self._refuse(join, ErrorCode.NOT_COORDINATOR, member_id="")
                return
            if error_code:
                if group.members.get(member_id) is member:
                    group.update(member, *before[1:])
                    group.replace_static(member, before[0])
                self._refuse(join, group_error(error_code), member_id="")
                return
            response = join_answer_for(group, member)
            if join.version >= 9:
                response.skip_assignment = group.leader_id == member_id
            else:
                # Told the old leader's id, a leader of before does not assign anew: nobody else would sync.
                response.leader = leader_before or ""
                response.members = []
            self.runtime.outbox.put(join.answer, response)

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self.runtime.write(group.group_id, [group_record(group, assignments, self.runtime.now_ms())], stored)


def topics_of(member: ClassicMember, protocol: str | None) -> frozenset[str]:
    return frozenset(topics_in(member.metadata_for(protocol)) or ())
