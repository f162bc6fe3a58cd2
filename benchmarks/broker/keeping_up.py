"""Consumers that have read everything and fetch again: each is brought the next record, or is told after a moment that there is none.

Requests go out on all connections before the first answer is read, so that the broker, whose CPU is measured, finds several when it looks.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.broker.frames import CLIENT, FETCH, FETCH_VERSIONS, NO_SESSION, OPENING, batch_of
from benchmarks.broker.load import SMALL
from benchmarks.broker.topics import Served, topic_id
from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, ProduceRequest

READERS = 16
MB1 = 1 << 20
IDLE_MS = 3
"""How long a fetch waits that nothing comes for."""
VERSION = FETCH_VERSIONS[1]
SMALL_BATCH = batch_of(1, SMALL)
_size = struct.Struct(">i")


class Reader:
    """One connection. In a session it names only the partition that it got records from."""

    def __init__(self, port: int, topic: bytes, partitions: int, in_session: bool, max_wait_ms: int):
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._topic = topic
        self._partitions = partitions
        self._max_wait_ms = max_wait_ms
        self._session_id, self._epoch = 0, OPENING if in_session else NO_SESSION
        if in_session:
            self.send(0)
            self._session_id = frames.decode_response(FETCH, VERSION, self.receive())[1].session_id

    def send(self, offset: int, *, is_news: bool = True) -> None:
        """Ask for what stands behind `offset` in partition 0; the others are empty."""
        goes_on = self._epoch > OPENING
        named = range((1 if is_news else 0) if goes_on else self._partitions)
        part = FetchRequest.Topic.Partition
        parts = [part(partition=number, fetch_offset=0 if number else offset, partition_max_bytes=MB1) for number in named]
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0 if self._epoch == OPENING else self._max_wait_ms,
            min_bytes=1,
            max_bytes=50 * MB1,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[FetchRequest.Topic(topic_id=self._topic, partitions=parts)] if parts else [],
        )
        self._epoch += self._epoch >= OPENING
        self._socket.sendall(frames.encode_request(FETCH, VERSION, 1, CLIENT, request))

    def receive(self) -> bytes:
        return self._exactly(*_size.unpack(self._exactly(4)))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            assert piece, "the broker closed the connection"
            data += piece
        return data

    def close(self) -> None:
        self._socket.close()


@dataclass(frozen=True)
class Readers:
    served: Served
    topic: str
    partitions: int
    in_session: bool
    has_news: bool

    def rounds(self) -> Iterator[int]:
        """A fetch of every reader again and again; how many there were in each round."""
        request = ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[self._record()])
        with self._readers() as readers, self.served.connect() as producer:
            offset = 0
            while True:
                if self.has_news:
                    assert producer.ask(request).responses[0].partition_responses[0].error_code == 0
                for reader in readers:
                    reader.send(offset, is_news=self.has_news)
                for reader in readers:
                    answer = reader.receive()
                    assert (len(answer) > len(SMALL_BATCH)) is self.has_news, f"an answer of {len(answer)} bytes"
                offset += self.has_news
                yield len(readers)

    def _record(self) -> ProduceRequest.TopicData:
        data = ProduceRequest.TopicData
        identity = topic_id(self.served, self.topic)
        return data(name=self.topic, topic_id=identity, partition_data=[data.PartitionData(index=0, records=SMALL_BATCH)])

    @contextmanager
    def _readers(self) -> Iterator[list[Reader]]:
        identity = topic_id(self.served, self.topic)
        wait_ms = 500 if self.has_news else IDLE_MS
        with ExitStack() as open_readers:
            readers = [Reader(self.served.port, identity, self.partitions, self.in_session, wait_ms) for _ in range(READERS)]
            for reader in readers:
                open_readers.callback(reader.close)
            yield readers
