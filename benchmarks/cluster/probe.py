"""A producer that asks one thing: which partitions accept a record with acks=all by now?

Metadata is asked for again and again; whatever has a leader gets one record in requests of some partitions each, one request open at
each broker. What was refused, or not answered, is tried again. The time of each partition's first acknowledgement is noted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.broker.frames import batch_of
from benchmarks.cluster.clusters import Cluster
from milepost.client.addresses import Address
from milepost.client.connection import Connection
from milepost.client.metadata import ClusterInfo, from_response
from milepost.errors import MilepostError
from milepost.protocol.messages import MetadataRequest, ProduceRequest

AT_ONCE = 100
ANSWER_SECONDS = 10.0
ACKS_ALL = -1
PAUSE = 0.002


class Probe:
    def __init__(self, cluster: Cluster, topic: str, partitions: int):
        self.cluster = cluster
        self.topic = topic
        self.partitions = partitions
        self.batch = memoryview(batch_of(1, 100))
        self.connections: dict[Address, Connection] = {}

    def until_all_accept(self, seconds: float) -> dict[int, float]:
        """When each partition accepted, by the monotonic clock."""
        accepted: dict[int, float] = {}
        deadline = time.monotonic() + seconds
        while len(accepted) < self.partitions:
            if time.monotonic() > deadline:
                missing = sorted(set(range(self.partitions)) - accepted.keys())
                raise SystemExit(
                    f"{self.cluster.name}: partitions {missing[:10]} … ({len(missing)}) accept nothing after {seconds} s"
                )
            info = self._metadata()
            if info is not None:
                self._try(info, accepted)
            time.sleep(PAUSE)
        self.close()
        return accepted

    def _metadata(self) -> ClusterInfo | None:
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=self.topic)])
        for broker in self.cluster.brokers.values():
            if broker.process is not None:
                address = Address("127.0.0.1", broker.port)
                try:
                    return from_response(self._connection(address).ask(request, timeout=ANSWER_SECONDS))
                except MilepostError:
                    self.connections.pop(address, None)
        return None

    def _try(self, info: ClusterInfo, accepted: dict[int, float]) -> None:
        by_leader: dict[Address, list[int]] = {}
        found = info.topics.get(self.topic)
        for part in found.partitions if found is not None else ():
            node = info.nodes.get(part.leader_id)
            if node is not None and part.partition not in accepted:
                by_leader.setdefault(node.address, []).append(part.partition)
        groups = {address: list(_cut(numbers)) for address, numbers in by_leader.items()}
        while any(groups.values()):
            sent = [address for address in groups if groups[address] and self._send(address, groups[address].pop())]
            for address in sent:
                self._receive(address, accepted)

    def _send(self, address: Address, numbers: list[int]) -> bool:
        Topic = ProduceRequest.TopicData
        parts = [Topic.PartitionData(index=number, records=self.batch) for number in numbers]
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=5000, topic_data=[Topic(name=self.topic, partition_data=parts)])
        try:
            self._connection(address).send(request, highest=9)
            return True
        except MilepostError:
            self.connections.pop(address, None)
            return False

    def _receive(self, address: Address, accepted: dict[int, float]) -> None:
        try:
            answer = self.connections[address].receive(ANSWER_SECONDS)
        except MilepostError:
            self.connections.pop(address, None)
            return
        now = time.monotonic()
        for part in answer.responses[0].partition_responses:
            if not part.error_code:
                accepted.setdefault(part.index, now)

    def _connection(self, address: Address) -> Connection:
        connection = self.connections.get(address)
        if connection is None or not connection.is_open:
            connection = self.connections[address] = Connection(address, timeout=ANSWER_SECONDS)
        return connection

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()
        self.connections.clear()


def _cut(numbers: list[int]) -> Iterable[list[int]]:
    return (numbers[start : start + AT_ONCE] for start in range(0, len(numbers), AT_ONCE))
