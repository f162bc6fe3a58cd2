"""What the controller tells a broker about one of its partitions, and who is woken by it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from milepost.clock import ManualClock
from milepost.config.broker import BrokerConfig
from milepost.log.manager import LogManager
from milepost.log.open import open_log
from milepost.metrics.topic_metrics import TopicMetrics
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import LeaderAndIsrRequest
from milepost.replica.leader_and_isr import LeaderAndIsrHandler
from milepost.replica.leadership import Confirmed
from milepost.replica.manager import ReplicaManager
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition
from milepost.work import at_once
from tests.failing_directory import FailingDirectoryDisk
from tests.log.making import produced

NAME = TopicPartition("visits", 0)
LAG = 10_000
Topic = LeaderAndIsrRequest.TopicState
State = LeaderAndIsrRequest.TopicState.PartitionState


class Timers:
    def later(self, seconds: float, task: Any) -> Any:
        return SimpleNamespace(cancel=lambda: None)


class Changer:
    def __init__(self) -> None:
        self.proposals: list[Any] = []

    def propose(self, log: Any, state: Any, isr: Any, epochs: Any, done: Any) -> None:
        self.proposals.append((isr, done))

    def may_join(self, broker_id: int) -> bool:
        return True


class World:
    def __init__(self, log: Any):
        self.clock = log.clock
        self.changer = Changer()
        self.replicas = ReplicaManager(None, Timers(), 1)  # type: ignore[arg-type]
        self.partition = Partition(log, bytes(16), 1, TopicMetrics(), self.replicas)
        self.replicas.partitions[NAME] = self.partition
        fetchers = SimpleNamespace(remove=lambda name: None, follow=lambda partition: None)
        self.leader_and_isr = LeaderAndIsrHandler(self.replicas, fetchers, self.changer, self.clock, lambda: LAG, lambda: 1)  # type: ignore[arg-type]

    def tell(self, epoch: int, isr: list[int], partition_epoch: int, topic_id: bytes = bytes(16)) -> int:
        state = State(
            partition_index=0, leader=1, leader_epoch=epoch, isr=isr, partition_epoch=partition_epoch, replicas=[1, 2, 3]
        )
        request = LeaderAndIsrRequest(
            controller_epoch=1,
            broker_epoch=1,
            topic_states=[Topic(topic_name="visits", topic_id=topic_id, partition_states=[state])],
        )
        answer = at_once(self.leader_and_isr.leading_and_following(request, 7, 0, self.leader_and_isr.suspensions))
        return answer.topics[0].partition_errors[0].error_code

    def produce(self) -> dict[TopicPartition, int]:
        """What a producer is told that waits for all replicas, when it is told."""
        told: dict[TopicPartition, int] = {}
        end = self.replicas.append(NAME, produced()).last_offset + 1
        self.replicas.when_committed([(self.partition, end)], 30, told.update)
        return told


@pytest.fixture
def world(tmp_path):
    with open_log(str(tmp_path / "visits-0"), mode="a", clock=ManualClock(1_000_000)) as log:
        yield World(log)


def test_producer_is_told_as_soon_as_the_follower_it_waited_for_is_let_go(world):
    assert world.tell(0, [1, 2], 0) == 0
    told = world.produce()
    world.clock.advance(LAG + 1)
    world.leader_and_isr.check_lag()
    ((isr, done),) = world.changer.proposals
    assert isr == {1} and told == {}
    done(Confirmed(0, isr, 1))
    assert told == {NAME: ErrorCode.NONE}


def test_producer_is_told_as_well_when_the_controller_says_so_first(world):
    world.tell(0, [1, 2], 0)
    told = world.produce()
    assert world.tell(0, [1], 1) == ErrorCode.STALE_CONTROLLER_EPOCH, "nothing new about who leads"
    assert told == {NAME: ErrorCode.NONE}


@pytest.mark.parametrize("has_id", [True, False])
def test_partition_whose_topic_id_cannot_be_read_is_answered_with_56_and_its_directory_goes_offline(world, tmp_path, has_id):
    disk, doomed, healthy = FailingDirectoryDisk(), tmp_path / "a", tmp_path / "b"
    manager = LogManager(BrokerConfig.parse({"log.dirs": f"{doomed},{healthy}"}), disk=disk)
    manager.startup()
    manager.create(NAME, topic_id="AAAAAAAAAAAAAAAAAAAAAQ" if has_id else None)
    world.replicas.logs = manager
    del world.replicas.partitions[NAME]
    disk.fail(doomed / "visits-0" / "partition.metadata", "open")
    assert world.tell(0, [1], 0, topic_id=bytes(15) + b"\1") == ErrorCode.KAFKA_STORAGE_ERROR
    assert list(manager.offline) == [str(doomed)]
    manager.shutdown()


def test_session_that_ends_between_two_partitions_takes_nothing_more(world):
    """A broker may be told of thousands at once, in pieces: what is led has to be led in the session in which it was said."""
    handler = world.leader_and_isr
    states = [
        State(partition_index=0, leader=1, leader_epoch=epoch, isr=[1, 2], partition_epoch=0, replicas=[1, 2, 3])
        for epoch in (0, 1)
    ]
    topic = Topic(topic_name="visits", topic_id=bytes(16), partition_states=states)
    request = LeaderAndIsrRequest(controller_epoch=1, broker_epoch=1, topic_states=[topic])
    work = handler.leading_and_following(request, 7, 0, handler.suspensions)
    next(work)
    handler.suspend()
    answer = at_once(work)
    assert (answer.error_code, world.partition.leader_epoch, world.partition.is_suspended) == (77, 0, True)


def test_session_that_has_ended_since_the_request_came_takes_nothing(world):
    handler = world.leader_and_isr
    state = State(partition_index=0, leader=1, leader_epoch=0, isr=[1, 2], partition_epoch=0, replicas=[1, 2, 3])
    topic = Topic(topic_name="visits", topic_id=bytes(16), partition_states=[state])
    request = LeaderAndIsrRequest(controller_epoch=1, broker_epoch=1, topic_states=[topic])
    came = handler.suspensions
    handler.suspend()
    answer = at_once(handler.leading_and_following(request, 7, 0, came))
    assert (answer.error_code, world.partition.is_leader) == (77, False)
