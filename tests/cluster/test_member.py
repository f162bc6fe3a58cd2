"""A member's life over the model of ZooKeeper: registered, controller, expired, back; and what keeps it from being one."""

from __future__ import annotations

import random
from types import SimpleNamespace

from milepost.broker.topology.zookeeper_topics import ZooKeeperTopics
from milepost.cluster.controller.controller_parts import ControllerSettings
from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.cluster.member import ClusterMember, MemberSettings
from milepost.cluster.protocol_versions import LATEST
from milepost.cluster.topic_writes import create_topic
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Delete, Exists, Result, SetData, Stat
from milepost.errors import InvalidArgument
from milepost.replica.metadata import Endpoint
from tests.simulation.turns import Turns
from tests.simulation.zookeeper import ModelSession, ModelZooKeeper

SESSION_SECONDS = 6.0


class Silence:
    """Nobody is told anything."""

    def send(self, *arguments, **options):
        pass

    def forget(self, broker_id):
        pass


class Clock:
    def now_ms(self):
        return 1_700_000_000_000


class Town:
    def __init__(self):
        self.turns = Turns()
        self.server = ModelZooKeeper(Clock().now_ms)
        self.sessions = {}
        self.told = []

    def join(self, broker_id, **options):
        session = ModelSession(self.server, self.turns)
        endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9090 + broker_id),)
        settings = MemberSettings(
            znodes.BrokerNode(endpoints),
            ControllerSettings(broker_id, LATEST, "PLAINTEXT"),
            SESSION_SECONDS,
            "cluster-of-the-first-one",
            **options,
        )
        member = ClusterMember(
            settings,
            session,
            Silence(),
            self.turns,
            self.turns.monotonic,
            Clock(),
            ControllerMetadata(broker_id, {}),
            lambda: "A" * 22,
        )
        member.on_registered = lambda: self.told.append(("registered", broker_id))
        member.on_expired_session = lambda: self.told.append(("expired", broker_id))
        member.on_failed = lambda error: self.told.append(("failed", str(error)))
        self.sessions[broker_id] = session
        member.start()
        self.turns.advance(1)
        return member

    def data(self, path):
        return self.server.nodes[path].data

    def write(self, *operations):
        admin = ModelSession(self.server, self.turns)
        admin.session_id = -99
        for operation in operations:
            assert self.server.carry_out(admin, operation).ok
        self.turns.advance(1)


def test_first_member_makes_the_cluster_and_is_its_controller():
    town = Town()
    first, second = town.join(1), town.join(2)
    assert (first.is_controller, second.is_controller) == (True, False)
    assert (first.cluster.elected_id, second.cluster.elected_id) == (1, 1)
    assert town.data("/cluster/id") == b'{"version":"1","id":"cluster-of-the-first-one"}'
    assert first.broker_epoch < second.broker_epoch == town.server.nodes["/brokers/ids/2"].czxid


def test_expired_controller_is_followed_by_another_and_registers_anew():
    town = Town()
    first, second = town.join(1), town.join(2)
    epoch = first.broker_epoch
    town.sessions[1].expire()
    town.turns.advance(2)
    assert town.told == [("registered", 1), ("registered", 2), ("expired", 1), ("registered", 1)]
    assert first.broker_epoch > epoch
    assert (first.is_controller, second.is_controller) == (False, True)
    assert town.data("/controller_epoch") == b"2"


def test_own_node_of_the_session_before_is_waited_for():
    """A broker that was killed and started again before ZooKeeper missed it."""
    town = Town()
    town.join(1)
    killed = town.sessions[1]
    again = town.join(1)
    assert not again.is_registered
    town.server.end_session(killed)
    town.turns.advance(1)
    assert again.is_registered


def test_id_that_another_broker_keeps_is_given_up_after_a_session_and_a_half():
    town = Town()
    town.join(1)
    second = town.join(1)
    town.turns.advance(SESSION_SECONDS * 1.5)
    assert not second.is_registered
    assert town.told == [
        ("registered", 1),
        ("failed", "a broker with id 1 is registered already: give this one another broker.id"),
    ]


def test_one_that_may_not_be_controller_is_not():
    town = Town()
    quiet = town.join(1, may_be_controller=False)
    assert "/controller" not in town.server.nodes
    other = town.join(2)
    assert (quiet.is_controller, other.is_controller, quiet.cluster.elected_id) == (False, True, 2)


def test_controller_is_believed_when_zookeeper_names_it():
    town = Town()
    first, second = town.join(1), town.join(2)
    said = []
    for controller_id, epoch in ((1, 1), (2, 1), (1, 2), (1, 0), (1, -1), (1, 1_000_000)):
        second.fault_of_controller(controller_id, epoch, second.broker_epoch, said.append)
        town.turns.advance(1)
    assert said == [0, 31, 31, 11, 11, 31]
    assert first.is_controller


def test_old_controller_is_told_so_by_a_broker_that_has_heard_of_none_yet():
    town = Town()
    town.join(1)
    second = town.join(2)
    town.sessions[1].close()
    town.turns.advance(1)
    assert town.data("/controller_epoch") == b"2"
    second._trusted = None
    said = []
    second.fault_of_controller(1, 1, second.broker_epoch, said.append)
    town.turns.advance(1)
    assert said == [11]


def test_controller_has_to_name_this_very_registration():
    town = Town()
    town.join(1)
    second = town.join(2)
    said = []
    for _ in range(2):  # the second time the controller is known
        for epoch in (second.broker_epoch, -1, second.broker_epoch - 1, second.broker_epoch + 1, 10**15, None):
            second.fault_of_controller(1, 1, epoch, said.append)
            town.turns.advance(1)
    assert said == [0, 77, 77, 77, 77, 0] * 2


def test_controller_that_our_server_has_not_heard_of_yet_is_believed_after_a_sync():
    town = Town()
    town.join(1)
    second = town.join(2)
    old = {path: Result(data=town.data(path), stat=Stat(0, 0)) for path in ("/controller", "/controller_epoch", "/brokers/ids/2")}
    town.sessions[1].close()
    town.join(3)
    town.turns.advance(1)
    epoch, now = int(town.data("/controller_epoch")), town.server.carry_out
    asked = []

    def lagging(session, operation):
        asked.append(type(operation).__name__)
        return now(session, operation) if "Sync" in asked else old[operation.path]

    named = znodes.controller_id(town.data("/controller"))
    second._trusted = None
    town.server.carry_out = lagging
    said = []
    second.fault_of_controller(named, epoch, second.broker_epoch, said.append)
    town.turns.advance(1)
    assert epoch == 2 and said == [0]
    assert asked == ["Get", "Get", "Exists", "Sync", "Get", "Get", "Exists"]


def test_whoever_waits_for_work_in_a_session_that_expires_is_told():
    town = Town()
    member = town.join(1)
    heard = []

    def work():
        yield [Exists("/brokers")]

    town.sessions[1].cut_off()
    for number in (1, 2):
        member.run(work(), lambda _: heard.append("done"), lambda number=number: heard.append(f"failed {number}"))
    member.run(work(), lambda _: heard.append("done"))
    member.with_topic_settings({"visits"}, lambda: heard.append("read"), lambda: heard.append("not read"))
    member.fault_of_controller(7, 70, 1, lambda fault: heard.append(("fault", fault)))
    town.turns.advance(SESSION_SECONDS + 1)
    town.sessions[1].reconnect()
    town.turns.advance(1)
    assert heard == ["failed 1", "failed 2", "not read", ("fault", 31)]
    assert member.is_registered


def test_work_that_raises_is_told_to_whoever_waits_and_the_member_stays_one():
    town = Town()
    member = town.join(1)
    heard = []

    def work():
        yield [Exists("/brokers")]
        raise InvalidArgument("no such thing")

    member.run(work(), lambda _: heard.append("done"), lambda: heard.append("failed"))
    member.run(iter_nothing(), lambda _: heard.append("next"))
    town.turns.advance(1)
    assert heard == ["failed", "next"]
    assert (member.failure, town.told) == (None, [("registered", 1)])


def iter_nothing():
    yield []


def test_topic_that_could_not_be_made_because_the_session_ended_can_be_made_later():
    town = Town()
    member = town.join(1)
    alive = SimpleNamespace(brokers={1: SimpleNamespace(rack=None)})
    topics = ZooKeeperTopics(SimpleNamespace(member=member, cluster=alive, rng=random.Random(1), versions=LATEST))
    town.sessions[1].cut_off()
    topics.create_in_background("visits", 1, 1, {})
    town.turns.advance(SESSION_SECONDS + 1)
    town.sessions[1].reconnect()
    town.turns.advance(1)
    assert "/brokers/topics/visits" not in town.server.nodes
    topics.create_in_background("visits", 1, 1, {})
    town.turns.advance(1)
    assert "/brokers/topics/visits" in town.server.nodes


def test_change_of_settings_is_heard_by_everybody():
    town = Town()
    heard = []
    for member in (town.join(1), town.join(2)):
        member.on_changed_settings = lambda entity, configs, number=member.broker_id: heard.append((number, entity, configs))
    town.write(
        Create("/config/topics/visits", znodes.config({"retention.ms": "5"})),
        Create("/config/changes/config_change_", znodes.config_change("topics/visits"), sequence=True),
    )
    assert heard == [(1, "topics/visits", {"retention.ms": "5"}), (2, "topics/visits", {"retention.ms": "5"})]
    town.write(
        SetData("/config/topics/visits", znodes.config({})),
        Create("/config/changes/config_change_", znodes.config_change("topics/visits"), sequence=True),
    )
    assert heard[2:] == [(1, "topics/visits", {}), (2, "topics/visits", {})]


def terms(town):
    """The epochs in which somebody was controller, in order."""
    writes = [operation for _, operation in town.server.writes if isinstance(operation, SetData)]
    return [int(operation.data) for operation in writes if operation.path == "/controller_epoch"]


def test_controller_that_cannot_take_over_resigns_and_stands_again_only_some_seconds_later(caplog):
    town = Town()
    members = [town.join(1), town.join(2)]
    town.server.acls["/isr_change_notification"] = "write"
    town.write(Delete("/controller"))
    assert terms(town) == [1, 2, 3]  # either of them has tried, within a second
    town.turns.advance(3)
    assert terms(town) == [1, 2, 3]
    town.turns.advance(3)
    assert terms(town) == [1, 2, 3, 4, 5]
    refused = [record for record in caplog.records if "failed and resigns" in record.getMessage()]
    assert len(refused) == 4
    assert refused[0].getMessage() == (
        "the controller failed and resigns: ZooKeeper refused Children /isr_change_notification: NO_AUTH (-102), "
        "its ACL must allow that to world:anyone (setAcl /isr_change_notification)"
    )
    assert all(record.exc_info is None for record in refused)
    town.server.acls.clear()
    town.turns.advance(6)
    assert [member.is_controller for member in members].count(True) == 1


def test_settings_that_are_denied_leave_a_member_what_it_is(caplog):
    town = Town()
    member = town.join(1)
    town.server.acls["/config/topics/visits"] = "write"
    town.write(
        Create("/config/topics/visits", b"{}"),
        Create("/config/changes/config_change_", znodes.config_change("topics/visits"), sequence=True),
    )
    assert (member.failure, member.is_registered, member.is_controller) == (None, True, True)
    assert town.told == [("registered", 1)]
    (line,) = [record.getMessage() for record in caplog.records if "NO_AUTH" in record.getMessage()]
    assert line.startswith("broker 1 gives up what it was doing: ZooKeeper refused Get /config/topics/visits")


def test_broker_that_may_not_register_ends_with_one_sentence():
    town = Town()
    town.server.acls["/brokers/ids"] = "read"
    member = town.join(1)
    assert not member.is_registered
    (failed,) = town.told
    assert failed[1].startswith("ZooKeeper refused Create /brokers/ids/1: NO_AUTH (-102)")


def test_work_that_zookeeper_refuses_is_told_to_whoever_waits():
    town = Town()
    member = town.join(1)
    town.server.acls["/config/users"] = "write"
    heard = []
    member.run(create_topic("visits", {0: (1,)}, {}, "A" * 22, LATEST), heard.append, lambda: heard.append("failed"))
    member.with_fresh_clients(lambda: heard.append("quotas"))
    town.turns.advance(1)
    town.server.acls["/config/topics"] = "read"
    member.run(create_topic("clicks", {0: (1,)}, {}, "B" * 22, LATEST), heard.append, lambda: heard.append("failed"))
    town.turns.advance(1)
    assert heard == [0, "quotas", "failed"]


def test_chroot_that_could_not_be_made_is_named():
    town = Town()
    del town.server.nodes["/"], town.server.children["/"]
    town.join(1)
    (failed,) = town.told
    assert failed[1].startswith("ZooKeeper has no place for /consumers: the chroot of zookeeper.connect is not there")


def test_settings_of_many_topics_are_read_some_at_a_time(monkeypatch):
    """A request of the controller may name ten thousand topics; others are served in between."""
    town = Town()
    member = town.join(1)
    sizes, read, done = [], {}, []
    submit = ModelSession.submit

    def counted(session, operations, done):
        sizes.append(len(operations))
        submit(session, operations, done)

    member.on_changed_settings = lambda entity, configs: read.update({entity: configs})
    town.write(Create("/config/topics/topic-119", b'{"version":1,"config":{"retention.ms":"5"}}'))
    monkeypatch.setattr(ModelSession, "submit", counted)
    member.with_topic_settings({f"topic-{number}" for number in range(120)}, lambda: done.append(len(read)), lambda: None)
    town.turns.advance(1)
    assert (sizes, done) == ([50, 50, 20], [120])
    assert read["topics/topic-119"] == {"retention.ms": "5"}
