"""A consumer that fetches as clients do, with a session or with a full request each time, and tells what it was answered."""

from __future__ import annotations

from typing import Any

from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest, FetchResponse
from milepost.record.batches import iter_batches
from tests.broker.topics import metadata
from tests.broker.wire import Wire

FETCH, BY_ID_SINCE, SESSION_SINCE = 1, 13, 7
FAR_AWAY = 1 << 40
PARTITIONS = 4
Part = FetchRequest.Topic.Partition
Answered = FetchResponse.Response.Partition


class Reader:
    """Of one topic. `fields` are those of the request that stay."""

    def __init__(self, wire: Wire, topic: str = "t", *, version: int = 16, in_session: bool = False, **fields: Any):
        self.wire = wire
        self.topic = topic
        self.version = version
        self.in_session = in_session
        self.fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
        self.session_id, self.session_epoch = 0, 0 if in_session else -1
        self.topic_id = metadata(wire, topic)[0].topic_id

    def request(self, *parts: Part, **fields: Any) -> FetchRequest:
        by_id = self.version >= BY_ID_SINCE
        topic = FetchRequest.Topic(
            topic="" if by_id else self.topic, topic_id=self.topic_id if by_id else bytes(16), partitions=list(parts)
        )
        session = {"session_id": self.session_id, "session_epoch": self.session_epoch} if self.version >= SESSION_SINCE else {}
        return FetchRequest(topics=[topic] if parts else [], **{**session, **self.fields, **fields})

    def send(self, *parts: Part, **fields: Any) -> None:
        self.wire.send(self.request(*parts, **fields), self.version)
        if self.in_session:
            self.session_epoch += 1

    def answer(self) -> FetchResponse:
        response: FetchResponse = frames.decode_response(FETCH, self.version, self.wire.read_frame())[1]
        if self.in_session and not response.error_code:
            self.session_id = response.session_id
        return response

    def answer_of(self, partition: int) -> Answered:
        return named(self.answer())[partition]

    def ask(self, *parts: Part, **fields: Any) -> dict[int, Answered]:
        """What is said about each partition that the answer names."""
        self.send(*parts, **fields)
        return named(self.answer())

    def warm(self, *partitions: int) -> Reader:
        """Fetch from far behind the end, which is answered at once, until the connection knows the request."""
        for _ in range(2):
            self.ask(*(at(number, FAR_AWAY) for number in partitions))
        return self


def at(partition: int, offset: int, max_bytes: int = 1 << 20, **fields: Any) -> Part:
    return Part(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def named(response: FetchResponse) -> dict[int, Answered]:
    assert response.error_code == 0
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def offsets(part: Answered) -> list[int]:
    """Of the records in an answer."""
    return [record.offset for batch in iter_batches(part.records or b"") for record in batch.records()]
