"""What a controller writes and tells, situation by situation; orders and epochs as a cluster of Kafka 3.9.1 brokers showed them."""

from __future__ import annotations

from milepost.cluster.controller.isr_changes import Proposal
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Multi, SetData
from milepost.cluster.zookeeper.unreadable import Unreadable
from milepost.protocol.messages import LeaderAndIsrResponse
from milepost.topic_partition import TopicPartition
from tests.cluster.controller.town import Town, alter
from tests.simulation.zookeeper import ModelSession


def test_brokers_that_come_are_told_who_is_alive():
    town = Town()
    town.start_broker(1)
    assert town.take_told() == ["1 UpdateMetadata live [1]"]
    town.start_broker(2)
    assert town.take_told() == ["1 UpdateMetadata live [1, 2]", "2 UpdateMetadata live [1, 2]"]
    town.start_broker(3)
    assert town.take_told() == [
        "1 UpdateMetadata live [1, 2, 3]",
        "2 UpdateMetadata live [1, 2, 3]",
        "3 UpdateMetadata live [1, 2, 3]",
    ]
    assert not town.errors


def test_new_topic_gets_leaders_and_everybody_hears_of_it(town):
    town.create_topic("t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)})
    states = "t:0(L1 e0 isr[1, 2, 3] pe0 new),1(L2 e0 isr[2, 3, 1] pe0 new),2(L3 e0 isr[3, 1, 2] pe0 new)"
    told = states.replace("pe0 new", "zk0")
    assert sorted(town.take_told()) == [
        f"1 LeaderAndIsr {states}",
        f"1 UpdateMetadata {told} live [1, 2, 3]",
        f"2 LeaderAndIsr {states}",
        f"2 UpdateMetadata {told} live [1, 2, 3]",
        f"3 LeaderAndIsr {states}",
        f"3 UpdateMetadata {told} live [1, 2, 3]",
    ]
    assert town.state("t", 1) == (2, 0, [2, 3, 1], 0)


def test_only_live_replicas_are_in_sync_at_first(town):
    town.kill_broker(3)
    town.create_topic("t", {0: (3, 1, 2)})
    assert town.state("t", 0) == (1, 0, [1, 2], 0)


def test_partition_without_a_live_replica_waits_for_one(town):
    town.kill_broker(3)
    town.create_topic("t", {0: (3,)})
    assert znodes.state_path("t", 0) not in town.server.nodes
    town.start_broker(3)
    assert town.state("t", 0) == (3, 0, [3], 0)


def test_topic_that_grows(town):
    town.create_topic("t", {0: (2, 3)})
    town.take_told()
    node = znodes.TopicNode({0: znodes.Assignment((2, 3)), 1: znodes.Assignment((3, 1))}, town.topic_id("t"))
    town.write(SetData(znodes.topic_path("t"), znodes.topic(node, 3)))
    assert town.state("t", 1) == (3, 0, [3, 1], 0)
    assert "1 LeaderAndIsr t:1(L3 e0 isr[3, 1] pe0 new)" in town.take_told()


def test_polite_leaving_moves_leaders_first(town):
    town.create_topic("t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)})
    town.take_told()
    error, remaining = town.ask(town.controller.controlled_shutdown, 2, town.controller.context.brokers[2].epoch)
    assert (error, remaining) == (0, [])
    assert [town.state("t", number) for number in range(3)] == [
        (1, 1, [1, 3], 1),
        (3, 1, [3, 1], 1),
        (3, 1, [3, 1], 1),
    ]
    told = town.take_told()
    assert told[:3] == [f"{each} LeaderAndIsr t:1(L3 e1 isr[3, 1] pe1)" for each in (2, 3, 1)]
    assert "2 StopReplica t:0(e0),2(e0)" in told
    assert "1 LeaderAndIsr t:0(L1 e1 isr[1, 3] pe1),2(L3 e1 isr[3, 1] pe1)" in told


def test_leaving_with_an_epoch_of_a_life_before_is_refused(town):
    epoch = town.controller.context.brokers[2].epoch
    assert town.ask(town.controller.controlled_shutdown, 2, epoch - 1) == (77, [])
    assert town.ask(town.controller.controlled_shutdown, 9, 0) == (8, [])


def test_broker_that_returns_is_told_everything_and_its_replicas(town):
    town.create_topic("t", {0: (1, 2)})
    town.kill_broker(2)
    assert town.state("t", 0) == (1, 1, [1], 1)
    town.take_told()
    town.start_broker(2)
    told = town.take_told()
    to_2 = [line for line in told if line.startswith("2 ")]
    assert to_2[:2] == ["2 UpdateMetadata t:0(L1 e1 isr[1] zk1) live [1, 2, 3]", "2 LeaderAndIsr t:0(L1 e1 isr[1] pe1)"]
    assert told.index("1 UpdateMetadata live [1, 2, 3]") < told.index("1 UpdateMetadata t:0(L1 e1 isr[1] zk1) live [1, 2, 3]")


def test_change_of_the_in_sync_replicas_whose_answer_is_lost_was_made(town):
    town.create_topic("t", {0: (1, 2, 3)})
    controller = town.controller
    epoch = controller.context.brokers[1].epoch
    town.sessions[1].loses_next_answer = True
    error, verdicts = town.ask(controller.alter_partition, 1, epoch, {TopicPartition("t", 0): Proposal(0, (1, 2), 0)}, 3)
    verdict = verdicts[TopicPartition("t", 0)]
    assert (error, verdict.error, verdict.state.isr, verdict.state.partition_epoch) == (0, 0, (1, 2), 1)
    assert town.state("t", 0) == (1, 0, [1, 2], 1)


def test_change_of_plans_that_would_drop_the_only_replica_in_sync_is_refused(town):
    town.create_topic("t", {0: (1, 2)})
    partition = TopicPartition("t", 0)
    town.ask(town.controller.alter_reassignments, {partition: (2, 3)})
    state = town.server.nodes[znodes.state_path("t", 0)]
    known = znodes.parse_state(state.data, state.version)
    town.write(SetData(znodes.state_path("t", 0), znodes.state(known._replace(leader=3, isr=(3,)))))
    town.controller.context.leadership[partition] = known._replace(leader=3, isr=(3,), partition_epoch=state.version)
    for target in (None, (1, 2)):
        ((code, message),) = town.ask(town.controller.alter_reassignments, {partition: target}).values()
        assert (code, message) == (39, "t-0: only [3] are in sync, and none of them would be kept; wait until another one is")


def test_requests_that_wait_when_a_controllers_time_ends_are_sent_to_the_next(town):
    town.create_topic("t", {0: (1, 2, 3)})
    controller = town.controller
    answers = []
    town.sessions[1].cut_off()
    proposals = {TopicPartition("t", 0): Proposal(0, (1, 2), 0)}
    controller.alter_partition(1, controller.context.brokers[1].epoch, proposals, 3, lambda *answer: answers.append(answer))
    controller.allocate_producer_ids(1, 0, lambda *answer: answers.append(answer))
    town.turns.settle()
    assert answers == []
    controller.end()
    controller.controlled_shutdown(2, 0, lambda *answer: answers.append(answer))
    assert answers == [(41, {}), (41, 0, 0), (41, [])]


def test_first_state_whose_answer_is_lost_was_made(town, monkeypatch):
    submit = ModelSession.submit

    def lossy(self, operations, done):
        self.loses_next_answer = any(isinstance(each, Multi) and "/state" in str(each) for each in operations)
        submit(self, operations, done)

    monkeypatch.setattr(ModelSession, "submit", lossy)
    town.create_topic("t", {0: (1, 2, 3)})
    assert town.state("t", 0) == (1, 0, [1, 2, 3], 0)
    assert town.controller.context.leadership[TopicPartition("t", 0)].leader == 1


def test_leader_that_dies_is_replaced_from_the_in_sync_replicas(town):
    town.create_topic("t", {0: (3, 1, 2)})
    town.take_told()
    town.kill_broker(3)
    assert town.state("t", 0) == (1, 1, [1, 2], 1)


def test_last_in_sync_replica_stays_and_the_partition_waits_for_it(town):
    town.create_topic("t", {0: (2, 3)})
    town.kill_broker(3)
    assert town.state("t", 0)[:3] == (2, 1, [2])
    town.start_broker(3)
    town.kill_broker(2)
    # 3 is alive but not in sync: nobody leads.
    leader, _, isr, _ = town.state("t", 0)
    assert (leader, isr) == (-1, [2])
    town.start_broker(2)
    leader, _, isr, _ = town.state("t", 0)
    assert (leader, isr) == (2, [2])


def test_topic_that_allows_it_elects_uncleanly(town):
    town.create_topic("t", {0: (2, 3)}, {"unclean.leader.election.enable": "true"})
    town.kill_broker(3)
    town.start_broker(3)
    town.kill_broker(2)
    leader, _, isr, _ = town.state("t", 0)
    assert (leader, isr) == (3, [3])


def test_new_controller_takes_over_from_what_is_in_zookeeper(town):
    town.create_topic("t", {0: (1, 2, 3)})
    town.take_told()
    town.kill_broker(1)
    assert town.controller.parts.term.epoch == 2
    told = town.take_told()
    assert told[:4] == [
        "2 UpdateMetadata live [2, 3]",
        "3 UpdateMetadata live [2, 3]",
        "2 LeaderAndIsr t:0(L1 e0 isr[1, 2, 3] pe0)",
        "3 LeaderAndIsr t:0(L1 e0 isr[1, 2, 3] pe0)",
    ]
    # First without a leader, then with the one elected: two epochs.
    assert "2 LeaderAndIsr t:0(L-1 e1 isr[2, 3] pe1)" in told
    assert town.state("t", 0) == (2, 2, [2, 3], 2)
    assert told[-1].endswith("UpdateMetadata t:0(L2 e2 isr[2, 3] zk2) live [2, 3]")


def test_changes_of_brokers_are_timed_beyond_a_term(town):
    town.kill_broker(2)
    times = town.election_times.histogram.count
    assert times > 0
    town.kill_broker(town.controller.parts.settings.broker_id)
    town.start_broker(2)
    assert town.election_times.histogram.count > times


def test_bounced_broker_is_treated_as_gone_and_come(town):
    town.create_topic("t", {0: (2, 3)})
    town.take_told()
    old = town.controller.context.brokers[2].epoch
    town.sessions[2].expire()
    town.turns.settle()
    assert town.controller.context.brokers[2].epoch > old
    leader, epoch, isr, _ = town.state("t", 0)
    assert (leader, isr) == (3, [3])
    assert epoch >= 1


def test_preferred_election_by_request(town):
    town.create_topic("t", {0: (2, 3)})
    town.kill_broker(2)
    town.start_broker(2)
    partition = TopicPartition("t", 0)
    assert town.ask(town.controller.elect_leaders, [partition], 0) == {partition: 80}
    alter(town, leader=3, isr=(3, 2))
    assert town.ask(town.controller.elect_leaders, [partition], 0) == {partition: 0}
    assert town.state("t", 0)[0] == 2
    assert town.ask(town.controller.elect_leaders, [partition], 0) == {partition: 84}
    assert town.ask(town.controller.elect_leaders, [TopicPartition("u", 0)], 0) == {TopicPartition("u", 0): 3}
    assert town.ask(town.controller.elect_leaders, None, 0) == {}


def test_preferred_election_through_zookeeper(town):
    town.create_topic("t", {0: (2, 3)})
    town.kill_broker(2)
    town.start_broker(2)
    alter(town, leader=3, isr=(3, 2))
    town.write(Create(znodes.PREFERRED_ELECTION, znodes.partition_list([("t", 0)])))
    assert town.state("t", 0)[0] == 2
    assert znodes.PREFERRED_ELECTION not in town.server.nodes


def test_only_what_a_broker_has_lost_in_this_life_is_lost(town):
    town.create_topic("t", {0: (2, 1, 3)})
    error = LeaderAndIsrResponse.PartitionError(topic_name="t", partition_index=0, error_code=56)
    brokers, told = town.controller.context.brokers, town.controller.parts.requests.on_leader_and_isr
    before = brokers[3]
    town.sessions[3].expire()
    town.turns.settle()
    assert brokers[3].epoch > before.epoch
    alter(town, 2, (2, 1, 3))
    told(before, LeaderAndIsrResponse(partition_errors=[error]))
    town.turns.settle()
    assert town.state("t", 0)[2] == [2, 1, 3]
    told(brokers[3], LeaderAndIsrResponse(partition_errors=[error]))
    town.turns.settle()
    assert town.state("t", 0)[2] == [2, 1]


def test_broker_whose_znode_makes_no_sense_is_what_it_was(town):
    known, before = dict(town.controller.context.brokers), Unreadable.count
    town.write(SetData(znodes.broker_path(2), b"{"))
    assert town.controller.context.brokers == known
    assert Unreadable.count > before
    assert not town.errors


def test_producer_ids_are_not_begun_anew_when_the_last_block_makes_no_sense(town):
    town.write(SetData(znodes.PRODUCER_ID_BLOCK, b"no block"))
    epoch = town.controller.context.brokers[2].epoch
    answers: list[tuple[int, int, int]] = []
    town.controller.allocate_producer_ids(2, epoch, lambda *answer: answers.append(answer))
    town.turns.settle()
    assert answers == [(-1, 0, 0)]
    assert town.server.nodes[znodes.PRODUCER_ID_BLOCK].data == b"no block"


def test_broker_that_does_not_answer_gets_everything_in_order_when_it_does(town):
    town.silent.add(2)
    town.create_topic("t", {0: (1, 2)})
    town.create_topic("u", {0: (1, 2)})
    town.take_told()
    town.silent.clear()
    town.turns.advance(1)
    assert [line.split(" t:")[0].split(" u:")[0] for line in town.take_told()] == ["2 LeaderAndIsr", "2 UpdateMetadata"] * 2


def test_leaders_drift_back(town):
    rebalancing = Town(leader_imbalance_check_interval_seconds=10)
    for broker_id in (1, 2, 3):
        rebalancing.start_broker(broker_id)
    rebalancing.create_topic("t", {0: (2, 3)})
    rebalancing.kill_broker(2)
    rebalancing.start_broker(2)
    alter(rebalancing, 3, (3, 2))
    rebalancing.turns.advance(20)
    assert rebalancing.state("t", 0)[0] == 2


def test_producer_ids_are_handed_out_in_blocks_that_never_overlap(town):
    epochs = {each: broker.epoch for each, broker in town.controller.context.brokers.items()}
    blocks = [town.ask(town.controller.allocate_producer_ids, each, epochs[each]) for each in (2, 3, 2)]
    assert blocks == [(0, 0, 1000), (0, 1000, 1000), (0, 2000, 1000)]
    assert town.server.nodes["/latest_producer_id_block"].data == (
        b'{"version":1,"broker":2,"block_start":"2000","block_end":"2999"}'
    )
    assert town.ask(town.controller.allocate_producer_ids, 2, 0) == (77, 0, 0)


def test_deposed_controller_ends_at_its_next_write(town):
    old = town.controller
    town.write(SetData(znodes.CONTROLLER_EPOCH, b"7"))
    town.create_topic("t", {0: (1, 2)})
    assert not old.is_active
    assert [type(error).__name__ for error in town.errors] == ["ControllerMoved"]
    assert znodes.state_path("t", 0) not in town.server.nodes


def test_in_sync_replicas_written_by_the_leader_itself_are_told_on(town):
    town.create_topic("t", {0: (1, 2)})
    town.take_told()
    state = znodes.PartitionState(1, 0, (1,), 1)
    town.write(SetData(znodes.state_path("t", 0), znodes.state(state)))
    town.write(Create(znodes.ISR_CHANGE, znodes.partition_list([("t", 0)]), sequence=True))
    assert town.take_told() == [f"{each} UpdateMetadata t:0(L1 e0 isr[1] zk1) live [1, 2, 3]" for each in (1, 2, 3)]
    assert not town.server.children[znodes.ISR_CHANGES]


def test_nonsense_in_a_topic_znode_is_ignored(town):
    town.write(Create("/brokers/topics/bad", b"{nonsense"))
    town.create_topic("good", {0: (1, 2)})
    assert town.state("good", 0)[0] == 1
    assert not town.errors
