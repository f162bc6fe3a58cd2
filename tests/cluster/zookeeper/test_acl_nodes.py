"""ACLs in ZooKeeper: Kafka's bytes, written over what was read, with a note for everybody."""

from __future__ import annotations

import pytest

from milepost.clock import ManualClock
from milepost.cluster.zookeeper import acl_nodes
from milepost.cluster.zookeeper.operations import Create, SetData
from milepost.cluster.zookeeper.session import Runner
from milepost.security.acls import from_row
from tests.cluster.zookeeper.lossy_session import ANSWERED, UNANSWERED, UNSENT, LossySession
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelZooKeeper

ALICE = from_row((2, "visits", 3, "User:alice", "*", 3, 3))
BOB = from_row((2, "visits", 3, "User:bob", "10.0.0.1", 2, 2))
PREFIX = from_row((5, "pay-", 4, "User:alice", "*", 12, 3))
VISITS = b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}'
BOTH = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"},'
    b'{"principal":"User:bob","permissionType":"Deny","operation":"All","host":"10.0.0.1"}]}'
)


class Owner:
    def on_connected(self):
        pass

    def on_expired(self):
        pass

    def on_watch(self, event):
        pass


class Town:
    def __init__(self):
        self.turns = Turns()
        self.clock = ManualClock(1_700_000_000_000)
        self.server = ModelZooKeeper(self.clock.now_ms)
        self.session = LossySession(self.server, self.turns)
        self.session.start(Owner())
        self.errors = []
        self.runner = Runner(self.session, self.errors.append)
        self.run(acl_nodes.make_nodes())

    def run(self, steps):
        results = []
        self.runner.run(steps, results.append)
        self.turns.settle()
        assert not self.errors
        return results[0]

    def do(self, *operations):
        def steps():
            return (yield operations)

        return self.run(steps())

    def data(self, path):
        return self.server.nodes[path].data


def test_nodes_are_kafkas():
    town = Town()
    assert town.run(acl_nodes.write(ALICE.pattern, [ALICE], [])) == [ALICE]
    assert town.data("/kafka-acl/Topic/visits") == VISITS
    assert town.data("/kafka-acl-changes/acl_changes_0000000000") == b"Topic:visits"
    assert town.run(acl_nodes.write(BOB.pattern, [BOB, ALICE], [])) == [ALICE, BOB]
    assert town.data("/kafka-acl/Topic/visits") == BOTH
    assert town.run(acl_nodes.write(PREFIX.pattern, [PREFIX], [])) == [PREFIX]
    assert town.data("/kafka-acl-extended/prefixed/TransactionalId/pay-") == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"IdempotentWrite","host":"*"}]}'
    )
    assert town.data("/kafka-acl-extended-changes/acl_changes_0000000000") == (
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"pay-","patternType":"PREFIXED"}'
    )
    assert town.run(acl_nodes.read_all()) == {ALICE.pattern: [ALICE, BOB], PREFIX.pattern: [PREFIX]}


def test_node_of_the_last_rule_goes_with_it():
    town = Town()
    town.run(acl_nodes.write(ALICE.pattern, [ALICE, BOB], []))
    assert town.run(acl_nodes.write(ALICE.pattern, [], [BOB])) == [ALICE]
    assert town.data("/kafka-acl/Topic/visits") == VISITS
    assert town.run(acl_nodes.write(ALICE.pattern, [], [ALICE])) == []
    assert "/kafka-acl/Topic/visits" not in town.server.nodes
    assert len([path for path in town.server.nodes if path.startswith("/kafka-acl-changes/")]) == 3


def test_rule_that_is_there_is_not_written_again():
    town = Town()
    town.run(acl_nodes.write(ALICE.pattern, [ALICE], []))
    assert town.run(acl_nodes.write(ALICE.pattern, [ALICE], [])) == [ALICE]
    assert town.run(acl_nodes.write(BOB.pattern, [], [BOB])) == [ALICE]
    assert [path for path in town.server.nodes if path.startswith("/kafka-acl-changes/")] == [
        "/kafka-acl-changes/acl_changes_0000000000"
    ]


@pytest.mark.parametrize("fate", [UNANSWERED, UNSENT])
@pytest.mark.parametrize("before", [[ANSWERED], [ANSWERED, ANSWERED]], ids=["the rules", "the note"])
def test_lost_answer_is_found_out(fate, before):
    town = Town()
    town.session.fates = [*before, fate]
    assert town.run(acl_nodes.write(ALICE.pattern, [ALICE], [])) == [ALICE]
    assert town.data("/kafka-acl/Topic/visits") == VISITS
    assert town.data("/kafka-acl-changes/acl_changes_0000000000") == b"Topic:visits"


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Maybe","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Juggle","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":1,"permissionType":"Deny","operation":"Read","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","operation":3,"host":"*"}]}',
        b'{"version":1,"acls":[{"permissionType":"Deny","operation":"Read","host":"*"}]}',
    ],
)
def test_node_that_cannot_be_read_is_not_one_without_rules(content):
    town = Town()
    town.do(Create("/kafka-acl/Topic/visits", content))
    assert town.run(acl_nodes.read_all()) == {ALICE.pattern: None}
    assert town.run(acl_nodes.write(ALICE.pattern, [ALICE], [])) is None
    assert town.data("/kafka-acl/Topic/visits") == content


def test_node_without_content_has_no_rules_as_in_kafka():
    town = Town()
    town.do(Create("/kafka-acl/Topic/visits", b""))
    assert town.run(acl_nodes.read_all()) == {ALICE.pattern: []}


def test_notes_that_are_new_name_each_resource_once():
    town = Town()
    town.run(acl_nodes.write(ALICE.pattern, [ALICE], []))
    changes = town.run(acl_nodes.watch_changes(acl_nodes.NOTHING_SEEN, town.clock.now_ms()))
    assert changes == ([ALICE.pattern], (0, -1))
    town.run(acl_nodes.write(ALICE.pattern, [BOB], []))
    town.run(acl_nodes.write(ALICE.pattern, [], [ALICE]))
    town.run(acl_nodes.write(PREFIX.pattern, [PREFIX], []))
    changes = town.run(acl_nodes.watch_changes(changes.seen, town.clock.now_ms()))
    assert changes == ([ALICE.pattern, PREFIX.pattern], (2, 0))
    assert town.run(acl_nodes.watch_changes(changes.seen, town.clock.now_ms())) == ([], (2, 0))


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/kafka-acl-changes/acl_changes_", b"Juggler:visits"),
        ("/kafka-acl-changes/acl_changes_", b"\xff"),
        ("/kafka-acl-extended-changes/acl_changes_", b"Topic:visits"),
        ("/kafka-acl-extended-changes/acl_changes_", b'{"version":1,"resourceType":"X","name":"v","patternType":"PREFIXED"}'),
    ],
)
def test_note_that_cannot_be_read_may_be_about_anything(path, content):
    town = Town()
    town.do(Create(path, content, sequence=True))
    assert town.run(acl_nodes.watch_changes(acl_nodes.NOTHING_SEEN, town.clock.now_ms())).patterns is None


def test_old_notes_are_removed():
    town = Town()
    town.run(acl_nodes.write(ALICE.pattern, [ALICE], []))
    town.clock.advance(15 * 60 * 1000 + 1)
    town.run(acl_nodes.write(PREFIX.pattern, [PREFIX], []))
    town.run(acl_nodes.watch_changes(acl_nodes.NOTHING_SEEN, town.clock.now_ms()))
    assert [path for path in town.server.nodes if "acl_changes_" in path] == [
        "/kafka-acl-extended-changes/acl_changes_0000000000"
    ]


def test_rules_of_two_brokers_at_once_are_both_kept():
    town = Town()
    steps = acl_nodes.write(ALICE.pattern, [ALICE], [])
    read = town.do(*next(steps))
    town.run(acl_nodes.write(BOB.pattern, [BOB], []))
    assert finished(town, steps, read) == [BOB, ALICE]


def finished(town, steps, results):
    while True:
        try:
            results = town.do(*steps.send(results))
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("name", ["a/b", ".", "..", "a\x00b"])
def test_name_that_can_be_no_znode(name):
    binding = ALICE._replace(pattern=ALICE.pattern._replace(name=name))
    assert acl_nodes.fault_of(binding) is not None
    assert acl_nodes.fault_of(ALICE) is None


def test_writing_over_a_node_that_changed_looks_again():
    town = Town()
    town.do(Create("/kafka-acl/Topic/visits", VISITS))
    steps = acl_nodes.write(BOB.pattern, [BOB], [])
    read = town.do(*next(steps))
    town.do(SetData("/kafka-acl/Topic/visits", b'{"version":1,"acls":[]}'))
    assert finished(town, steps, read) == [BOB]
