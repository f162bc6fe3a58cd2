"""A consumer of assigned partitions: it remembers a position in each and fetches from all leaders at once.

`poll` waits until some leader has records, or for `max_wait` seconds, and gives what came. A leader that has nothing yet keeps its
question (the broker answers when there is something), so one idle leader does not hold up the others. The fetches go over connections of
their own: an answer that is waited for does not stand before other requests.

A position outside of the log is dealt with as `reset` says: go to the EARLIEST or the LATEST offset, or, without it, raise. Partitions whose
leader moved are asked for again; after too many failures in a row the last error is raised. Not a member of any group: see `offsets` for
commits.
"""

from __future__ import annotations

import select
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.fetched import read_fetched
from milepost.client.metadata import Node
from milepost.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, by_topic, ends
from milepost.client.retrying import failed
from milepost.errors import BrokerUnavailable, MilepostError
from milepost.log.partition_name import TopicPartition
from milepost.protocol.error_codes import RETRIABLE, ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.record.records import Record

FETCH_BY_NAME = 12
"""The last version of Fetch that names topics by name."""
MAX_BYTES = 50 << 20
PARTITION_MAX_BYTES = 1 << 20
NO_SESSION = -1


@dataclass(slots=True)
class _Asked:
    """A fetch that is on its way."""

    connection: Connection
    offsets: dict[TopicPartition, int]


class Consumer:
    def __init__(
        self,
        cluster: Cluster,
        positions: Mapping[TopicPartition, int],
        *,
        isolation: int = READ_UNCOMMITTED,
        reset: int | None = None,
        max_bytes: int = MAX_BYTES,
        partition_max_bytes: int = PARTITION_MAX_BYTES,
    ):
        assert reset in (None, EARLIEST, LATEST), "a reset goes to one of the ends"
        self.cluster = cluster
        self.positions = dict(positions)
        """The offset to go on from, by partition. The one that was served last is last, so that all get their turn."""
        self.isolation = isolation
        self.reset = reset
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self._asked: dict[Node, _Asked] = {}
        self._connections: dict[Node, Connection] = {}
        self._failures = 0

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._asked.clear()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def poll(self, max_wait: float) -> dict[TopicPartition, list[Record]]:
        """The records that came, by partition, each in order; empty when there were none in time."""
        try:
            self._ask(max_wait)
            return self._read(max_wait)
        except BrokerUnavailable as error:
            self._failed(error)
            return {}

    def _ask(self, max_wait: float) -> None:
        """A fetch to every leader that has none on its way."""
        busy = {partition for asked in self._asked.values() for partition in asked.offsets}
        leaders, leaderless = self.cluster.by_leader(partition for partition in self.positions if partition not in busy)
        for error in leaderless.values():
            self._failed(error)
        for node, partitions in leaders.items():
            if node not in self._asked:
                connection = self._connection(node)
                connection.send(self._request(partitions, max_wait), highest=FETCH_BY_NAME)
                self._asked[node] = _Asked(connection, {partition: self.positions[partition] for partition in partitions})

    def _connection(self, node: Node) -> Connection:
        connection = self._connections.get(node)
        if connection is None or not connection.is_open:
            connection = self._connections[node] = self.cluster.dial(node.address)
        return connection

    def _request(self, partitions: list[TopicPartition], max_wait: float) -> FetchRequest:
        Topic = FetchRequest.Topic
        return FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=1,
            max_bytes=self.max_bytes,
            isolation_level=self.isolation,
            session_epoch=NO_SESSION,
            topics=[
                Topic(
                    topic=name,
                    partitions=[
                        Topic.Partition(
                            partition=each.partition, fetch_offset=self.positions[each], partition_max_bytes=self.partition_max_bytes
                        )
                        for each in group
                    ],
                )
                for name, group in by_topic(partitions).items()
            ],
        )

    def _read(self, max_wait: float) -> dict[TopicPartition, list[Record]]:
        # The broker ends the wait; a little longer here, so that its answer is not missed by a hair.
        waiting = [asked.connection for asked in self._asked.values()]
        ready, _, _ = select.select(waiting, [], [], max_wait + 0.1) if waiting else ([], [], [])
        found: dict[TopicPartition, list[Record]] = {}
        for node, asked in list(self._asked.items()):
            if asked.connection in ready:
                # Taken away first: whatever happens now, this question is over.
                del self._asked[node]
                self._take(asked, asked.connection.receive(), found)
        return found

    def _take(self, asked: _Asked, response: FetchResponse, found: dict[TopicPartition, list[Record]]) -> None:
        where = str(asked.connection.address)
        if response.error_code:
            raise failed(f"fetch from {where}", response.error_code)
        for topic in response.responses:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic, row.partition_index)
                if self.positions.get(partition) != asked.offsets.get(partition):
                    continue  # moved since
                if row.error_code:
                    self._refused(partition, row)
                elif row.records is not None and len(row.records):
                    self._failures = 0
                    self._accept(partition, row, where, found)

    def _accept(
        self, partition: TopicPartition, row: FetchResponse.Response.Partition, where: str, found: dict[TopicPartition, list[Record]]
    ) -> None:
        position = self.positions.pop(partition)
        fetched = read_fetched(
            row.records,
            position,
            [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()],
            is_committed_only=self.isolation == READ_COMMITTED,
            where=f"{where}, {partition} from offset {position}",
        )
        self.positions[partition] = fetched.next_offset
        if fetched.records:
            found[partition] = fetched.records

    def _refused(self, partition: TopicPartition, row: FetchResponse.Response.Partition) -> None:
        position = self.positions[partition]
        what = f"fetch of {partition} at offset {position}"
        if row.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self._failed(failed(what, row.error_code))
        elif self.reset is None:
            first = ends(self.cluster, [partition], EARLIEST)[partition]
            last = ends(self.cluster, [partition], LATEST, self.isolation)[partition]
            raise failed(what, row.error_code, f"the log holds offsets {first} to {last - 1}" if last > first else "the log is empty")
        else:
            self.positions[partition] = ends(self.cluster, [partition], self.reset, self.isolation)[partition]

    def _failed(self, error: MilepostError) -> None:
        """Something did not work. Ask again who leads, after a pause, unless this goes on for too long or will not pass."""
        self._failures += 1
        retries = self.cluster.retries
        if self._failures >= retries.attempts or not (isinstance(error, BrokerUnavailable) or error.code in RETRIABLE):
            raise error
        self._asked = {node: asked for node, asked in self._asked.items() if asked.connection.is_open}
        retries.sleep(min(retries.first_pause * 2 ** (self._failures - 1), retries.longest_pause))
        self.cluster.forget()
