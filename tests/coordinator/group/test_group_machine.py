"""Members that come, go, crash and come back in any order: what must hold whatever happens.

Each client behaves as a consumer does: it joins, syncs (the leader with an assignment for every member it was told of),
heartbeats, joins again when it is told to, and starts over when it is not known any more.

    one generation      members that were answered in one generation were given the same leader, protocol and generation
    assignments         a member gets exactly the bytes that its generation's leader made for it
    nobody is lost      with no one leaving any more, all living clients end up in one stable generation
    the log agrees      a coordinator that loads the log knows the same stable group
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from milepost.protocol.error_codes import ErrorCode
from tests.coordinator.group_fixture import Call, GroupBench

AGAIN = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED}
LOST = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}


class Client:
    def __init__(self, bench: GroupBench, instance: str | None):
        self.bench = bench
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.assignment: bytes | None = None
        self.call: Call | None = None
        self.is_syncing = False

    def join(self) -> None:
        self.assignment = None
        self.is_syncing = False
        self.call = self.bench.join(self.member_id, instance=self.instance, rebalance_ms=20_000)

    def react(self, leaders: dict[int, tuple[str, str]], plans: dict[tuple[int, str], bytes]) -> None:
        """Take answers as they come, and do what they ask for."""
        while self.call is not None and not self.call.is_waiting:
            call, self.call = self.call, None
            response = call.response
            if call.error in LOST:
                self.member_id, self.generation = "", -1
                self.join()
            elif call.error:
                assert call.error in AGAIN
                self.member_id = self.member_id if self.is_syncing else response.member_id or self.member_id
                self.join()
            elif not self.is_syncing:
                self.member_id, self.generation = response.member_id, response.generation_id
                told = (response.leader, response.protocol_name)
                if not response.skip_assignment:
                    assert leaders.setdefault(self.generation, told) == told or self.instance is not None
                leads = response.leader == self.member_id and not response.skip_assignment
                assignments = (
                    {m.member_id: f"{self.generation}/{m.member_id}".encode() for m in response.members} if leads else {}
                )
                plans.update({(self.generation, name): plan for name, plan in assignments.items()})
                self.is_syncing = True
                self.call = self.bench.sync(self.member_id, self.generation, assignments, group_instance_id=self.instance)
            else:
                self.assignment = response.assignment
                self.is_syncing = False
                if self.instance is None:
                    assert self.assignment == plans.get((self.generation, self.member_id), b"")

    def heartbeat(self) -> None:
        if self.call is None:
            error = self.bench.heartbeat(self.member_id, self.generation, instance=self.instance)
            if error in LOST:
                self.member_id, self.generation = "", -1
            if error:
                self.join()


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = GroupBench(initial_rebalance_delay_ms=500).load()
        self.bench.commit({("visits", 0): 0})  # so that the group outlives its members, and generations count up
        self.clients: list[Client] = []
        self.leaders: dict[int, tuple[str, str]] = {}
        self.plans: dict[tuple[int, str], bytes] = {}
        self.instances = 0

    def settle(self) -> None:
        for _ in range(3):
            for client in self.clients:
                client.react(self.leaders, self.plans)

    @rule(is_static=st.booleans())
    @precondition(lambda self: len(self.clients) < 5)
    def a_client_comes(self, is_static: bool) -> None:
        self.instances += is_static
        client = Client(self.bench, f"instance-{self.instances}" if is_static else None)
        self.clients.append(client)
        client.join()
        self.settle()

    @rule(index=st.integers(0, 4))
    @precondition(lambda self: self.clients)
    def a_client_leaves(self, index: int) -> None:
        client = self.clients.pop(index % len(self.clients))
        if client.member_id:
            self.bench.leave(client.member_id)
        self.settle()

    @rule(index=st.integers(0, 4))
    @precondition(lambda self: self.clients)
    def a_client_crashes(self, index: int) -> None:
        self.clients.pop(index % len(self.clients))

    @rule(index=st.integers(0, 4))
    @precondition(lambda self: self.clients)
    def a_client_crashes_and_comes_back(self, index: int) -> None:
        index %= len(self.clients)
        self.clients[index] = Client(self.bench, self.clients[index].instance)
        self.clients[index].join()
        self.settle()

    @rule(milliseconds=st.sampled_from([1, 500, 4_000, 9_000, 21_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.bench.advance(milliseconds)
        self.settle()

    @rule(count=st.integers(1, 5))
    def some_heartbeat(self, count: int) -> None:
        for client in self.clients[:count]:
            client.heartbeat()
        self.settle()

    @rule()
    def everybody_lives_on_until_all_is_quiet(self) -> None:
        for _ in range(20):
            self.bench.advance(5_000)
            for client in self.clients:
                client.heartbeat()
            self.settle()
        if not self.clients:
            return
        assert {client.generation for client in self.clients} == {self.bench.groups.groups["g"].generation}
        assert all(client.call is None and client.assignment is not None for client in self.clients)
        assert {client.member_id for client in self.clients} == set(self.bench.groups.groups["g"].members)
        assert self.bench.groups.groups["g"].state_name == "Stable"
        again = self.bench.restarted()
        for client in self.clients:
            assert again.heartbeat(client.member_id, client.generation, instance=client.instance) == 0
            assert again.sync(client.member_id, client.generation).response.assignment == client.assignment

    @invariant()
    def members_that_wait_are_counted(self) -> None:
        group = self.bench.groups.groups.get("g")
        if group is not None:
            waiting = sum(member.join_answer is not None for member in group.members.values())
            assert group.awaiting_join == waiting
            assert group.leader_id in (group.members or {None})
            assert set(group.static_members.values()) <= set(group.members)


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
