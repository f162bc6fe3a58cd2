"""The 25 steps that were recorded with Kafka's brokers, done with milepost's.

Where Kafka had a choice (the brokers of new partitions, who gets a block of producer ids, who wins an election), the recorded one is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from milepost.protocol.messages import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    FindCoordinatorRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListPartitionReassignmentsRequest,
)
from tests.cluster.asking import end_session, until
from tests.cluster.recorded.brokers import RecordedBrokers, Tree
from tests.cluster.recorded.taps import Noted
from tests.waiting import PROCESS_PATIENCE

TOPIC, BROKER = 2, 4
COMPLETE_SECONDS = 60.0
GROUP, TRANSACTION = 0, 1
THREE_OF_THREE = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


class Done(NamedTuple):
    """A step that was made: the tree after it, and what brokers were sent during it."""

    step: str
    tree: Tree
    requests: list[Noted]


class Steps:
    def __init__(self, brokers: RecordedBrokers, auto: dict[int, list[int]], last: tuple[int, int]):
        """`auto` says where the partitions of `t-auto` were, the later two after growth; `last` who stopped first at the end."""
        self.brokers = brokers
        self.auto = auto
        self.last = last

    def run(self, is_complete: Callable[[list[Done]], bool]) -> list[Done]:
        """`is_complete` says whether the last step left what it should: until then it is worth waiting. One that did not ends the run."""
        run: list[Done] = []
        for step, act in self.acts().items():
            act()
            deadline = time.monotonic() + COMPLETE_SECONDS
            while not (was_complete := is_complete([*run, self.done(step)])) and time.monotonic() < deadline:
                time.sleep(0.1)
            self.brokers.until_quiet()
            run.append(self.done(step)._replace(requests=self.brokers.taps.take()))
            if not was_complete:
                break
        return run

    def done(self, step: str) -> Done:
        return Done(step, self.brokers.tree(), list(self.brokers.taps.noted))

    def acts(self) -> dict[str, Callable[[], object]]:
        return {
            "01-start-broker-1": lambda: self.start(1),
            "02-start-broker-2": lambda: self.start(2),
            "03-start-broker-3": lambda: self.start(3),
            "04-create-topic-rf3": lambda: self.create("t-rf3", THREE_OF_THREE, {"min.insync.replicas": "2"}),
            "05-create-topic-auto-assignment": lambda: self.create("t-auto", {each: self.auto[each] for each in (0, 1)}),
            "06-partition-growth": self.grow,
            "07-produce-acks-all": self.produce_everywhere,
            "08-config-and-quota-changes": self.set_configs,
            "09-transaction": self.transact,
            "10-consumer-group": self.consume,
            "11-controlled-shutdown-broker-2": lambda: self.stop(2),
            "12-broker-2-returns": lambda: self.start(2),
            "13-preferred-election": lambda: (self.elect([("t-rf3", [1])]), self.elect(None)),
            "14-kill-broker-3-isr-shrink": self.kill_and_write,
            "15-kill-broker-3-session-expired": lambda: self.end_session(3),
            "16-broker-3-returns-isr-expand": lambda: self.start(3),
            "17-preferred-election-after-return": lambda: self.elect(None),
            "18-kill-controller": self.kill_controller,
            "19-old-controller-returns": self.controller_returns,
            "20-create-t-move": lambda: self.create("t-move", {0: [1, 2]}),
            "21-reassignment-1-2-to-2-3": lambda: self.move([2, 3]),
            "22-reassignment-grow-replicas": lambda: self.move([1, 2, 3]),
            "23-topic-deletion": self.delete,
            "24-controlled-shutdown-of-controller": self.stop_controller,
            "25-all-stopped": lambda: [self.stop(each) for each in self.last],
        }

    # Brokers.

    def start(self, broker_id: int) -> None:
        self.brokers.brokers[broker_id].start()
        self.brokers.until(lambda: self.brokers.is_in_sync, f"{broker_id} is in sync")

    def stop(self, broker_id: int) -> None:
        assert self.brokers.brokers[broker_id].stop() == 0
        self.until_dead(broker_id)

    def until_dead(self, broker_id: int) -> None:
        self.brokers.until(lambda: broker_id not in self.brokers.alive and self.brokers.is_in_sync, f"{broker_id} is gone")

    def kill(self, broker_id: int) -> None:
        # A follower that dies before it has asked its new leader lags, whatever it has.
        self.brokers.until_followed_by(broker_id)
        self.brokers.brokers[broker_id].kill()

    def end_session(self, broker_id: int) -> None:
        end_session(self.brokers.kazoo, broker_id)
        self.until_dead(broker_id)

    def kill_and_write(self) -> None:
        self.kill(3)
        self.take_producer_id(2)
        self.produce({"t-rf3": [0, 1]})
        states = self.brokers.states
        self.brokers.until(lambda: all(3 not in states("t-rf3")[each]["isr"] for each in (0, 1)), "3 lags")

    def kill_controller(self) -> None:
        self.kill(1)
        with self.elected(2, instead_of=3):
            end_session(self.brokers.kazoo, 1)
        self.until_dead(1)

    def controller_returns(self) -> None:
        self.take_producer_id(3)
        self.produce({"t-rf3": [0, 1, 2]})
        self.start(1)

    def stop_controller(self) -> None:
        with self.elected(3, instead_of=1):
            assert self.brokers.brokers[2].stop() == 0
        self.until_dead(2)

    @contextmanager
    def elected(self, winner: int, *, instead_of: int) -> Iterator[None]:
        """After the controller went."""
        loser = self.brokers.to_zookeeper[instead_of]
        loser.keeps_vacancy = True
        yield
        until(lambda: self.brokers.controller == winner, f"{winner} is the controller")
        loser.keeps_vacancy = False

    # Clients.

    def ask(self, request: Any) -> Any:
        return self.brokers.ask(self.brokers.controller, request)

    def create(self, name: str, replicas: dict[int, list[int]], configs: dict[str, str] | None = None) -> None:
        topic = CreateTopicsRequest.Topic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                CreateTopicsRequest.Topic.Assignment(partition_index=number, broker_ids=each) for number, each in replicas.items()
            ],
            configs=[CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in (configs or {}).items()],
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        assert [each.error_code for each in answer.topics] == [0]

    def grow(self) -> None:
        given = [CreatePartitionsRequest.Topic.Assignment(broker_ids=self.auto[each]) for each in (2, 3)]
        topic = CreatePartitionsRequest.Topic(name="t-auto", count=4, assignments=given)
        answer = self.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=60_000))
        assert [each.error_code for each in answer.results] == [0]

    def take_producer_id(self, broker_id: int) -> None:
        answer = self.brokers.ask(broker_id, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))
        assert answer.error_code == 0

    def produce(self, partitions: dict[str, list[int]]) -> None:
        producer = Producer({"bootstrap.servers": self.brokers.bootstrap, "acks": "all", "log_level": 0})
        for topic, numbers in partitions.items():
            for number in numbers:
                producer.produce(topic, b"value", partition=number)
        assert producer.flush(PROCESS_PATIENCE) == 0

    def produce_everywhere(self) -> None:
        for broker_id in (2, 3):
            self.take_producer_id(broker_id)
        self.produce({"t-rf3": [0, 1, 2], "t-auto": [0, 1, 2, 3]})

    def set_configs(self) -> None:
        for kind, name, key, value in (
            (TOPIC, "t-auto", "retention.ms", "86400000"),
            (BROKER, "1", "log.cleaner.threads", "2"),
            (BROKER, "", "log.retention.ms", "86400001"),
        ):
            config = IncrementalAlterConfigsRequest.Resource.Config(name=key, config_operation=0, value=value)
            resource = IncrementalAlterConfigsRequest.Resource(resource_type=kind, resource_name=name, configs=[config])
            answer = self.ask(IncrementalAlterConfigsRequest(resources=[resource]))
            assert [each.error_code for each in answer.responses] == [0]
        entry = AlterClientQuotasRequest.Entry(
            entity=[AlterClientQuotasRequest.Entry.Entity(entity_type="client-id", entity_name="q1")],
            ops=[AlterClientQuotasRequest.Entry.Op(key="producer_byte_rate", value=1_000_000.0)],
        )
        assert [each.error_code for each in self.ask(AlterClientQuotasRequest(entries=[entry])).entries] == [0]

    def find_coordinator(self, broker_id: int, kind: int, key: str, topic: str) -> None:
        """One broker is asked, so one makes the topic."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        self.brokers.ask(broker_id, request)
        self.brokers.until(lambda: self.brokers.node(f"/brokers/topics/{topic}/partitions/2/state"), f"{topic} is there")

    def transact(self) -> None:
        self.find_coordinator(1, TRANSACTION, "tx-a", "__transaction_state")
        producer = Producer({"bootstrap.servers": self.brokers.bootstrap, "transactional.id": "tx-a", "log_level": 0})
        producer.init_transactions(PROCESS_PATIENCE)
        producer.begin_transaction()
        for number in (0, 1):
            producer.produce("t-rf3", b"committed", partition=number)
        self.find_coordinator(2, GROUP, "g-a", "__consumer_offsets")
        consumer = self.consumer()
        producer.send_offsets_to_transaction(
            [TopicPartition("t-rf3", 0, 1)], consumer.consumer_group_metadata(), PROCESS_PATIENCE
        )
        producer.commit_transaction(PROCESS_PATIENCE)
        producer.begin_transaction()
        producer.produce("t-rf3", b"aborted", partition=2)
        # librdkafka ends a transaction whose partitions are still being added, which coordinators refuse.
        producer.flush(PROCESS_PATIENCE)
        producer.abort_transaction(PROCESS_PATIENCE)
        consumer.close()

    def consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self.brokers.bootstrap,
            "group.id": "g-a",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        return Consumer(settings)

    def consume(self) -> None:
        consumer = self.consumer()
        consumer.subscribe(["t-rf3"])
        assert [each for each in consumer.consume(1, PROCESS_PATIENCE) if each.error() is None]
        consumer.commit(asynchronous=False)
        consumer.close()

    def elect(self, partitions: list[tuple[str, list[int]]] | None) -> None:
        of = ElectLeadersRequest.TopicPartition
        chosen = None if partitions is None else [of(topic=topic, partitions=numbers) for topic, numbers in partitions]
        answer = self.ask(ElectLeadersRequest(election_type=0, topic_partitions=chosen, timeout_ms=60_000))
        assert answer.error_code == 0

    def move(self, replicas: list[int]) -> None:
        topic = AlterPartitionReassignmentsRequest.Topic
        moved = topic(name="t-move", partitions=[topic.Partition(partition_index=0, replicas=replicas)])
        assert self.ask(AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=[moved])).error_code == 0

        moving = ListPartitionReassignmentsRequest(timeout_ms=60_000, topics=None)
        self.brokers.until(lambda: not self.ask(moving).topics, f"t-move is on {replicas}")

    def delete(self) -> None:
        topics = [DeleteTopicsRequest.Topic(name=name) for name in ("t-auto", "t-move")]
        answer = self.ask(DeleteTopicsRequest(topics=topics, timeout_ms=60_000))
        assert [each.error_code for each in answer.responses] == [0, 0]
        self.brokers.until(lambda: not self.brokers.kazoo.get_children("/admin/delete_topics"), "the topics are gone")
