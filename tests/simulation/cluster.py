"""A simulated cluster and one run of it: brokers, clients, faults from the seed, then peace; then everybody must agree.

    set up       three brokers register, a topic is made
    trouble      clients work while things go wrong
    peace        everything heals; every client gets something done, the clients stop, replicas become equal
    judgement    what clients saw and what the files have goes to the checker

`convergence` is a finding of its own: after half a minute of peace some replica is out of sync, or brokers disagree about who leads.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Operation
from milepost.config.definition import LONG_MAX
from milepost.errors import MilepostError
from milepost.log.log import Log
from milepost.log.reading import Isolation
from milepost.record.batches import iter_batches
from milepost.topic_partition import TopicPartition
from tests.checker.checker import check
from tests.checker.history import Finding, History, Lookup, Outcome, Replica
from tests.crash.memory_disk import MemoryDisk
from tests.simulation.broker import SimulatedBroker
from tests.simulation.clients import Client, Consumer, Producer, committed, visible
from tests.simulation.decisions import Decisions
from tests.simulation.disk import FragileDisk
from tests.simulation.faults import Faults
from tests.simulation.network import Network
from tests.simulation.session import SimulatedZooKeeper
from tests.simulation.transactions import Transactor
from tests.simulation.world import World

TOPIC = "t"
REPLICAS = 3
UNUSED = TopicPartition("unused", 0)
PEACE_SECONDS = 30.0
CONVERGENCE_SECONDS = 30.0


class Cluster:
    def __init__(self, seed: int, trace: Callable[[str], object] | None = None):
        self.world = world = World(seed, trace)
        self.history = History()
        self.network = Network(world)
        self.zookeeper = SimulatedZooKeeper(self.network)
        self.decisions = Decisions(self.zookeeper.model, world, self.history)
        self.clients: list[Client] = []
        self.producer_ids = 0
        self.may_lose_power = world.random.random() < 0.3
        version = world.random.choice(("3.9", "3.9", "3.9", "2.8", "2.3"))
        self.versions = protocol_versions(version)
        min_isr = world.random.choice((1, 2, 2, 2))
        settings: dict[str, Any] = {
            "log.segment.bytes": 2000,
            "log.index.interval.bytes": 200,
            "log.index.size.max.bytes": 2000,
            "min.insync.replicas": min_isr,
            "log.flush.interval.messages": 1 if self.may_lose_power else LONG_MAX,
            "replica.lag.time.max.ms": 2000,
            # A batch at a time: who is behind stays behind for a while.
            "replica.fetch.max.bytes": world.random.choice((100, 1 << 20)),
            "transaction.state.log.num.partitions": 2,
            "offsets.topic.num.partitions": 1,
            "leader.imbalance.check.interval.seconds": 5,
            "inter.broker.protocol.version": version,
        }
        self.partitions: list[TopicPartition] = []
        self.brokers = {
            broker_id: SimulatedBroker(
                broker_id,
                self.network,
                self.zookeeper,
                FragileDisk({}) if self.may_lose_power else MemoryDisk({}),
                self.history,
                settings,
            )
            for broker_id in range(1, world.random.choice((3, 3, 4)) + 1)
        }
        power = "power may fail" if self.may_lose_power else "power never fails"
        world.note(f"seed {seed}: {len(self.brokers)} brokers, {min_isr} in sync at least, {power}, protocol {version}")

    def set_up(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        self.world.run(1.0)
        self.use_topic(TOPIC, self.world.random.choice((1, 1, 2, 3)))
        random = self.world.random
        if random.random() < 0.4:
            self.clients.append(Transactor(self, 0))
        for number in range(3):
            acks_all = random.random() < 0.85
            self.clients.append(Producer(self, number, is_idempotent=acks_all and random.random() < 0.7, acks_all=acks_all))
        self.world.run(3.0)

    # What an administrator does.

    def write(self, *operations: Operation) -> None:
        for operation in operations:
            self.zookeeper.model.carry_out(_Admin(), operation)

    def make_topic(self, name: str, partitions: int) -> None:
        ids = sorted(self.brokers)
        assignments = {
            number: znodes.Assignment(tuple(ids[(number + place) % len(ids)] for place in range(REPLICAS)))
            for number in range(partitions)
        }
        node = znodes.TopicNode(assignments, None)
        self.world.note(f"topic {name} is made with {partitions} partitions")
        self.write(
            Create(znodes.config_path("topics", name), znodes.config({})),
            Create(znodes.topic_path(name), znodes.topic(node, self.versions.topic_znode)),
        )

    def use_topic(self, name: str, partitions: int) -> None:
        """Make it, and have it written and read."""
        self.make_topic(name, partitions)
        made = [TopicPartition(name, number) for number in range(partitions)]
        self.partitions += made
        for partition in made:
            is_committed = self.world.random.random() < 0.7
            self.clients.append(Consumer(self, len(self.clients), partition, is_committed=is_committed))

    def make_or_delete(self) -> None:
        """A topic that nobody uses comes and goes, under the same name."""
        if znodes.topic_path(UNUSED.topic) not in self.zookeeper.model.nodes:
            self.make_topic(UNUSED.topic, 1)
        else:
            self.world.note(f"topic {UNUSED.topic} is to be deleted")
            self.write(Create(znodes.delete_topic_path(UNUSED.topic)))

    def reassign(self, name: TopicPartition, replicas: list[int]) -> None:
        """As the old tool does it. Nothing happens while an earlier order is being looked at."""
        self.world.note(f"{name} is to be on {replicas}")
        wanted = {"version": 1, "partitions": [{"topic": name.topic, "partition": name.partition, "replicas": replicas}]}
        self.write(Create(znodes.REASSIGN_PARTITIONS, json.dumps(wanted).encode()))

    def assignment(self, name: TopicPartition) -> znodes.Assignment:
        node = znodes.parse_topic(self.zookeeper.model.nodes[znodes.topic_path(name.topic)].data)
        assert node is not None
        return node.partitions[name.partition]

    # Peace.

    def state(self, name: TopicPartition) -> znodes.PartitionState | None:
        """What ZooKeeper has."""
        node = self.zookeeper.model.nodes.get(znodes.state_path(name.topic, name.partition))
        return znodes.parse_state(node.data, node.version) if node is not None else None

    def everybody_was_served(self) -> bool:
        since = self.history.healed_at
        served = {send.client for send in reversed(self.history.sends) if send.ended > since and send.outcome is Outcome.OK}
        served |= {poll.client for poll in reversed(self.history.polls) if poll.ended > since}
        return all(client.name in served for client in self.clients)

    def differences(self) -> list[str]:
        """Why the cluster is not at rest."""
        found = []
        doomed = sorted(self.zookeeper.model.children.get(znodes.DELETE_TOPICS, ()))
        if doomed:
            found.append(f"still to be deleted: {doomed}")
        is_there = znodes.topic_path(UNUSED.topic) in self.zookeeper.model.nodes
        if not is_there:
            left = [broker.name for broker in self.brokers.values() if broker.has_log(UNUSED)]
            found += [f"{UNUSED} is deleted, and still on {left}"] if left else []
        for name in (*self.partitions, UNUSED) if is_there else self.partitions:
            state, assignment = self.state(name), self.assignment(name)
            if state is None or set(state.isr) != set(assignment.replicas) or state.leader not in self.brokers:
                found.append(f"{name}: ZooKeeper has {state}, {assignment}")
                continue
            if assignment.is_reassigned:
                found.append(f"{name}: still moves: {assignment}")
                continue
            logs = {}
            for broker in self.brokers.values():
                partition = broker.partition(name)
                if broker.broker_id not in assignment.replicas:
                    # One that was away when its replica was moved keeps it, as in Kafka: nobody tells it. It must not lead.
                    if partition is not None and partition.unavailable_error() == 0:
                        found.append(f"{name}: {broker.name} still leads it")
                    continue
                if partition is None:
                    found.append(f"{name}: {broker.name} does not have it")
                    continue
                logs[broker.broker_id] = (partition.log.high_watermark, partition.log.end_offset)
                if partition.leader_epoch != state.leader_epoch or partition.is_leader is not (broker.broker_id == state.leader):
                    found.append(f"{name}: {broker.name} is in epoch {partition.leader_epoch}, leading: {partition.is_leader}")
            if len({offset for pair in logs.values() for offset in pair}) > 1:
                found.append(f"{name}: (high watermark, end) {logs}")
        return found

    # Judgement.

    def collect(self) -> None:
        for name in self.partitions:
            for broker in self.brokers.values():
                partition = broker.partition(name)
                if partition is None or broker.broker_id not in self.assignment(name).replicas:
                    continue
                data = read_everything(partition.log)
                batches = list(iter_batches(data))
                records = tuple(visible(batches))
                mark = partition.log.high_watermark
                self.history.replicas.append(Replica(broker.broker_id, str(name), mark, records, sha256(data).hexdigest()))
                self._look_up(broker.broker_id, name, partition.log, data)
                if partition.is_leader:
                    seen = [record for record in committed(batches) if record.offset < mark]
                    self.history.final[str(name)] = tuple(seen)

    def _look_up(self, broker_id: int, name: TopicPartition, log: Log, data: bytes) -> None:
        """A few timestamps, by the index and by reading everything."""
        stamps = [(record.timestamp, record.offset) for batch in iter_batches(data) for record in batch.records()]
        for timestamp, _ in self.world.random.sample(stamps, min(3, len(stamps))):
            scanned = next(offset for stamp, offset in stamps if stamp >= timestamp)
            found = log.find(time=timestamp)
            question = f"the first record at or after {timestamp}"
            self.history.lookups.append(Lookup(broker_id, str(name), question, found.offset if found else -1, scanned))


class _Admin:
    """Whoever makes the topic."""

    session_id = -1

    def deliver(self, event: Any) -> None: ...


def read_everything(log: Log) -> bytes:
    pieces = []
    offset = log.start_offset
    while offset < log.end_offset:
        fetched = log.read(offset, 1 << 20, Isolation.LOG_END)
        pieces.append(fetched.data)
        offset = fetched.batches[-1].next_offset
    return b"".join(pieces)


@dataclass
class Run:
    """What one seed gave."""

    seed: int
    findings: list[Finding]
    fingerprint: int
    events: int
    messages: int
    settled: float = 0.0
    """Seconds from the last fault, or the last start of a broker, until all agreed."""
    sends: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)


class Complaints(logging.Handler):
    """Exceptions that somebody caught and logged: brokers go on after them, and nobody should have to."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.findings: list[Finding] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not isinstance(record.exc_info[1], MilepostError):
            self.findings.append(Finding("exception", logging.Formatter().format(record)))

    def __enter__(self) -> Complaints:
        logging.getLogger("milepost").addHandler(self)
        return self

    def __exit__(self, *error: object) -> None:
        logging.getLogger("milepost").removeHandler(self)


def run(seed: int, trace: Callable[[str], object] | None = None) -> Run:
    with Complaints() as complaints:
        found = simulate(seed, trace)
    found.findings[:0] = complaints.findings
    return found


def simulate(seed: int, trace: Callable[[str], object] | None) -> Run:
    cluster = Cluster(seed, trace)
    world, history = cluster.world, cluster.history
    cluster.set_up()
    faults = Faults(cluster)
    world.run(faults.until)
    faults.heal()
    history.healed_at = world.now
    history.ended_at = world.now + PEACE_SECONDS
    world.run(history.ended_at, cluster.everybody_was_served)
    for client in cluster.clients:
        client.is_stopped = True
    world.run(world.now + CONVERGENCE_SECONDS, lambda: not cluster.differences())
    agreed_at = world.now
    findings = [Finding("convergence", text) for text in cluster.differences()]
    cluster.collect()
    findings += check(history)
    for finding in findings:
        world.note(f"finding: {finding.rule}: {finding.text}")
    outcomes = {outcome.value: sum(send.outcome is outcome for send in history.sends) for outcome in Outcome}
    settled = agreed_at - max(history.healed_at, *(broker.started_at for broker in cluster.brokers.values()))
    return Run(seed, findings, world.fingerprint, world.events, cluster.network.messages, settled, outcomes, faults.counts)
