"""A consumer of assigned partitions: it remembers a position in each and fetches from all leaders at once.

`poll` waits until some leader has records, or for `max_wait` seconds, and gives what came. A leader that has nothing yet keeps its
question (the broker answers when there is something), so one idle leader does not hold up the others. The fetches go over connections of
their own: an answer that is waited for does not stand before other requests.

A position outside of the log is dealt with as `reset` says: go to the EARLIEST or the LATEST offset, or, without it, raise. When a
leader moved or went away it is asked for again; after too many failures in a row the last error is raised. Records that are damaged
are DamagedRecords, once all before them were given; it says where to `seek`.

Not a member of any group: see `offsets` for commits.
"""

from __future__ import annotations

import select
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.damage import FETCH_BY_NAME, DamagedRecords, from_batch_with, next_readable
from milepost.client.fetched import Fetched, read_fetched
from milepost.client.metadata import Node
from milepost.client.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, by_topic, ends
from milepost.client.retrying import failed, is_worth_another_try
from milepost.codec.buffer import Buffer
from milepost.errors import BrokerUnavailable, MalformedMessage, MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.record.records import Record
from milepost.topic_partition import TopicPartition

MAX_BYTES = 50 << 20
PARTITION_MAX_BYTES = 1 << 20
NO_SESSION = -1


@dataclass(slots=True)
class _Asked:
    """A fetch that is on its way."""

    connection: Connection
    offsets: dict[TopicPartition, int]
    deadline: float
    """When even a slow broker must have answered."""


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
        self._error: MilepostError | None = None

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
        if self._error is not None:
            raise self._error
        found: dict[TopicPartition, list[Record]] = {}
        errors: list[MilepostError] = []
        self._ask(max_wait, errors)
        self._read(max_wait, found, errors)
        if errors:
            self._recover(errors, bool(found))
        return found

    def _ask(self, max_wait: float, errors: list[MilepostError]) -> None:
        """A fetch to every leader that has none on its way."""
        busy = {partition for asked in self._asked.values() for partition in asked.offsets}
        leaders, leaderless = self.cluster.by_leader(partition for partition in self.positions if partition not in busy)
        errors += leaderless.values()
        for node, partitions in leaders.items():
            if node in self._asked:
                continue  # it has just become their leader, and still has another question to answer
            try:
                connection = self._connection(node)
                connection.send(self._request(partitions, max_wait), highest=FETCH_BY_NAME)
            except BrokerUnavailable as error:
                errors.append(error)
                continue
            deadline = self._now() + max_wait + self.cluster.timeout
            self._asked[node] = _Asked(connection, {partition: self.positions[partition] for partition in partitions}, deadline)

    def _now(self) -> float:
        return self.cluster.retries.monotonic()

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
                            partition=each.partition,
                            fetch_offset=self.positions[each],
                            partition_max_bytes=self.partition_max_bytes,
                        )
                        for each in group
                    ],
                )
                for name, group in by_topic(partitions).items()
            ],
        )

    def _read(self, max_wait: float, found: dict[TopicPartition, list[Record]], errors: list[MilepostError]) -> None:
        waiting = [asked.connection for asked in self._asked.values()]
        # The broker ends the wait; a little longer here, so that its answer is not missed by a hair.
        ready = select.select(waiting, [], [], max_wait + 0.1)[0] if waiting else []
        for node, asked in list(self._asked.items()):
            if asked.connection not in ready:
                if self._now() > asked.deadline:
                    del self._asked[node]
                    asked.connection.close()
                    errors.append(
                        BrokerUnavailable(f"{node.address} did not answer a fetch within {self.cluster.timeout:g} seconds")
                    )
                continue
            del self._asked[node]
            try:
                response = asked.connection.receive()
            except BrokerUnavailable as error:
                errors.append(error)
            else:
                self._take(asked, response, found, errors)

    def _take(
        self, asked: _Asked, response: FetchResponse, found: dict[TopicPartition, list[Record]], errors: list[MilepostError]
    ) -> None:
        where = str(asked.connection.address)
        if response.error_code:
            errors.append(failed(f"fetch from {where}", response.error_code))
            return
        before = len(errors)
        for topic in response.responses:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic, row.partition_index)
                if partition not in asked.offsets or self.positions.get(partition) != asked.offsets[partition]:
                    continue  # not asked for, or moved since
                try:
                    if row.error_code:
                        self._refused(asked.connection, partition, row)
                    elif row.records is not None and len(row.records):
                        self._accept(asked.connection, partition, row, where, found)
                except MilepostError as error:
                    errors.append(error)
        if len(errors) == before:
            self._failures = 0

    def _accept(
        self,
        connection: Connection,
        partition: TopicPartition,
        row: FetchResponse.Response.Partition,
        where: str,
        found: dict[TopicPartition, list[Record]],
    ) -> None:
        position = self.positions[partition]
        assert row.records is not None, "there are some"

        def read(data: Buffer) -> Fetched:
            return read_fetched(
                data,
                position,
                [(each.producer_id, each.first_offset) for each in row.aborted_transactions or ()],
                is_committed_only=self.isolation == READ_COMMITTED,
                where=f"{where}, {partition} from offset {position}",
                end=row.high_watermark,
            )

        try:
            fetched = read(row.records)
        except MalformedMessage as error:
            sound = from_batch_with(row.records, position)
            if sound is None:
                raise self._damaged(connection, partition, row.records, row.high_watermark, str(error)) from error
            fetched = read(sound)
        del self.positions[partition]
        self.positions[partition] = fetched.next_offset
        if fetched.records:
            found[partition] = fetched.records

    def _damaged(
        self, connection: Connection, partition: TopicPartition, data: Buffer, end: int, what: str
    ) -> DamagedRecords:
        position = self.positions[partition]
        if end <= position:
            end = ends(self.cluster, [partition], LATEST)[partition]
        following = next_readable(self.cluster, connection, partition, position, end, data, self.isolation)
        last = (end if following is None else following) - 1
        behind = "and nothing behind them can" if following is None else f"{following} is the next that can"
        return DamagedRecords(f"{what}; offsets {position} to {last} of {partition} cannot be read, {behind}", partition, following)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at `offset`, also after an error."""
        self.positions[partition] = offset
        self._error = None

    def _refused(self, connection: Connection, partition: TopicPartition, row: FetchResponse.Response.Partition) -> None:
        position = self.positions[partition]
        what = f"fetch of {partition} at offset {position}"
        if row.error_code == ErrorCode.CORRUPT_MESSAGE:
            raise self._damaged(connection, partition, b"", row.high_watermark, str(failed(what, row.error_code)))
        if row.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise failed(what, row.error_code)
        if self.reset is not None:
            self.positions[partition] = ends(self.cluster, [partition], self.reset, self.isolation)[partition]
            return
        first = ends(self.cluster, [partition], EARLIEST)[partition]
        last = ends(self.cluster, [partition], LATEST, self.isolation)[partition]
        raise failed(what, row.error_code, f"the log holds offsets {first} to {last - 1}" if last > first else "the log is empty")

    def _may_pass(self, error: MilepostError) -> bool:
        """What is damaged stays damaged, although the code says that another try may help: that is meant for producers."""
        return is_worth_another_try(error) and error.code != ErrorCode.CORRUPT_MESSAGE

    def _recover(self, errors: list[MilepostError], has_records: bool) -> None:
        """Ask again who leads, after a pause, unless this goes on for too long or will not pass.

        Records that came are handed out before an error ends it all.
        """
        self._failures += 1
        retries = self.cluster.retries
        fatal = next((error for error in errors if not self._may_pass(error)), None)
        if fatal is None and self._failures >= retries.attempts:
            fatal = errors[0]
        if fatal is not None:
            if not has_records:
                raise fatal
            self._error = fatal
            return
        self.cluster.forget()
        if not has_records:
            retries.sleep(min(retries.first_pause * 2 ** (self._failures - 1), retries.longest_pause))
