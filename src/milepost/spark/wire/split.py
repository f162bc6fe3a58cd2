"""What one task reads of a broker: ranges of offsets, fetched from whoever leads each partition.

While the rows of one answer are made, the next fetch is already on its way: how far an answer reaches is seen from the headers of its
batches. Answers come as the broker keeps them, whole batches, compressed or not; checks and decoding are those of the files.

    the leader moved, or is gone       it is asked for again, for as long as `kafkaConsumer.pollTimeoutMs`
    the offset is no longer there      data loss: an error, or the query goes on at the first offset there is
    nothing more below the end         the rest of the range is empty: compaction left nothing there
    damage on the broker's disk        an error that names partition and offset
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from milepost.client.cluster import Cluster
from milepost.client.connection import Connection
from milepost.client.consumer import NO_SESSION
from milepost.client.damage import FETCH_BY_NAME
from milepost.client.offsets import EARLIEST, LATEST, ends
from milepost.client.retrying import failed, is_worth_another_try
from milepost.errors import CorruptRecord, MilepostError, OffsetOutOfRange
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest
from milepost.spark.offset_range import OffsetRange
from milepost.spark.transport import Split
from milepost.spark.wire.settings import WireSettings
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from milepost.spark.columns import Columns
    from milepost.spark.decode import RowDecoder

logger = logging.getLogger("milepost.spark")

MAX_WAIT_MS = 500
LAST_OFFSET_DELTA = 23
MAGIC_AT = 16


@dataclass(frozen=True, slots=True)
class WireSplit(Split):
    offsets: tuple[OffsetRange, ...]
    settings: WireSettings
    estimated_size: int = 0

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        return self.offsets

    @property
    def size(self) -> int:
        return self.estimated_size

    def read(self, columns: Columns, *, reuse_buffers: bool = False) -> Iterator[pa.RecordBatch]:
        from milepost.spark.decode import RowDecoder

        decoder = RowDecoder(columns, read_committed=self.settings.read_committed, reuse_buffers=reuse_buffers)
        with self.settings.connect() as cluster:
            for each in self.offsets:
                yield from RangeReader(cluster, self.settings, decoder, each).read()
        yield from decoder.finish()


class RangeReader:
    """Fetches one range of one partition."""

    def __init__(self, cluster: Cluster, settings: WireSettings, decoder: RowDecoder, offsets: OffsetRange):
        self.cluster = cluster
        self.settings = settings
        self.decoder = decoder
        self.partition: TopicPartition = offsets.partition
        self.position = offsets.start
        self.end = offsets.end
        self._failures = iter(cluster.retries.rounds())
        self._connection: Connection | None = None

    def read(self) -> Iterator[pa.RecordBatch]:
        while self.position < self.end:
            try:
                row = self._receive()
                following = self._reach(row)
                if following < self.end and following > self.position:
                    self._send(following)
            except MilepostError as error:
                self._recover(error)
                continue
            if following == self.position:
                if row.high_watermark >= self.end:
                    return
                self._recover(failed(f"{self.partition} at offset {self.position}", ErrorCode.OFFSET_NOT_AVAILABLE))
                continue
            yield from self._decode(row)
            self.position = following
            self._failures = iter(self.cluster.retries.rounds())

    # Asking.

    def _send(self, offset: int) -> None:
        if self._connection is None or not self._connection.is_open:
            leaders, leaderless = self.cluster.by_leader([self.partition])
            for error in leaderless.values():
                raise error
            (node,) = leaders
            self._connection = self.cluster.connection(node.address)
        Topic = FetchRequest.Topic
        asked = Topic.Partition(
            partition=self.partition.partition, fetch_offset=offset, partition_max_bytes=self.settings.fetch_bytes
        )
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self.settings.fetch_bytes,
            isolation_level=self.settings.isolation,
            session_epoch=NO_SESSION,
            topics=[Topic(topic=self.partition.topic, partitions=[asked])],
        )
        self._connection.send(request, highest=FETCH_BY_NAME)
        self._asked = offset

    def _receive(self) -> Any:
        """The answer for `position`; the question may be out already."""
        if self._connection is None or not self._connection.is_open or self._asked != self.position:
            self._send(self.position)
        assert self._connection is not None
        response = self._connection.receive()
        self._asked = -1
        if response.error_code:
            raise failed(f"fetch from {self._connection.address}", response.error_code)
        row = response.responses[0].partitions[0]
        if row.error_code:
            self._refused(row.error_code)
        return row

    _asked = -1

    def _refused(self, code: int) -> None:
        what = f"{self.partition} at offset {self.position}"
        if code == ErrorCode.CORRUPT_MESSAGE:
            raise CorruptRecord(f"{what}: the records there are damaged on the broker's disk")
        if code != ErrorCode.OFFSET_OUT_OF_RANGE:
            raise failed(f"fetch of {what}", code)
        first = ends(self.cluster, [self.partition], EARLIEST)[self.partition]
        last = ends(self.cluster, [self.partition], LATEST, self.settings.isolation)[self.partition]
        sentence = f"data loss: {what} is gone, the log holds {first} to {last - 1}"
        if self.settings.fail_on_data_loss:
            raise OffsetOutOfRange(f"{sentence}. To read what is left, set failOnDataLoss to false")
        logger.warning("%s; the query goes on without", sentence)
        self.position = min(first, self.end) if first > self.position else self.end
        raise failed(what, ErrorCode.OFFSET_NOT_AVAILABLE)

    def _recover(self, error: MilepostError) -> None:
        """Pause, forget who leads, and let the loop ask again; raises what will not pass, or lasts too long."""
        if self._connection is not None:
            # Whatever it still answers would be to a question that nobody asks any more.
            self._connection.close()
            self._connection = None
        self._asked = -1
        if not is_worth_another_try(error) or next(self._failures, True):
            raise error
        self.cluster.forget()

    # Reading.

    def _reach(self, row: Any) -> int:
        """Behind the last whole batch of an answer, from the headers alone."""
        data, reached = row.records, self.position
        if not data:
            return reached
        at, size = 0, len(data)
        # A message of an old format may be smaller than the header of a batch: only what all of them have may be asked for.
        while at + MAGIC_AT < size:
            length = int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
            if length <= 0 or at + 12 + length > size:
                break
            offset = int.from_bytes(data[at : at + 8], "big", signed=True)
            if data[at + MAGIC_AT] >= 2:
                offset += int.from_bytes(data[at + LAST_OFFSET_DELTA : at + LAST_OFFSET_DELTA + 4], "big", signed=True)
            reached = max(reached, offset + 1)
            at += 12 + length
        return reached

    def _decode(self, row: Any) -> Iterator[pa.RecordBatch]:
        from milepost.spark.decode import ANY_OFFSET

        aborted = [(each.producer_id, each.first_offset, ANY_OFFSET) for each in row.aborted_transactions or ()]
        offsets = OffsetRange(self.partition, self.position, self.end)
        where = f"{self.partition} from offset {self.position}"
        yield from self.decoder.start(offsets, aborted if self.settings.read_committed else (), where=where)
        yield from self.decoder.feed(row.records, 0, len(row.records))
