"""What a leader answers: fetches of its followers, and clients that write, read, and ask where to go.

Followers ask in the protocol's own words. Clients have words of their own here (`Produce`, `Consume`, `WhoLeads`), because what they say is
checked afterwards: each answer tells also what a client cannot see.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.errors import MilepostError, OffsetOutOfRange
from milepost.log.partition_name import TopicPartition
from milepost.log.reading import Isolation
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchResponse, ListOffsetsResponse
from milepost.replica.metadata import PartitionInfo
from milepost.replica.replicated import ReplicatedPartition
from tests.checker.history import Accepted

if TYPE_CHECKING:
    from tests.simulation.broker import SimulatedBroker

Part = FetchResponse.Response.Partition
EARLIEST = -2
MAX_WAIT_SECONDS = 1.0


class WhoLeads(NamedTuple):
    pass


class Leaders(NamedTuple):
    partitions: dict[TopicPartition, PartitionInfo]


class Produce(NamedTuple):
    partition: TopicPartition
    data: bytes
    acks_all: bool


class Produced(NamedTuple):
    error: int
    offset: int = -1


class Consume(NamedTuple):
    partition: TopicPartition
    leader_epoch: int
    offset: int


class Consumed(NamedTuple):
    error: int
    data: bytes = b""
    leader_epoch: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    end_offset: int = -1
    leader: str = ""


class Serving:
    def __init__(self, broker: SimulatedBroker):
        self.broker = broker
        self.replicas = broker.replicas

    def serve(self, kind: str, request: Any, answer: Callable[[Any], object]) -> None:
        if kind == "FetchRequest":
            self._fetch(request, answer)
        elif kind == "ListOffsetsRequest":
            answer(self._list_offsets(request))
        elif kind == "Produce":
            self._produce(request, answer)
        elif kind == "Consume":
            answer(self._consume(request))
        else:
            assert kind == "WhoLeads", kind
            known = self.broker.metadata.topics
            answer(Leaders({TopicPartition(topic, number): info for topic in known for number, info in known[topic].items()}))

    def _led(self, name: TopicPartition, epoch: int = -1) -> tuple[ReplicatedPartition | None, int]:
        partition = self.replicas.partition(name)
        if not isinstance(partition, ReplicatedPartition):
            return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if epoch >= 0 and epoch != partition.leader_epoch:
            older = epoch < partition.leader_epoch
            return None, ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        if partition.leadership is None:
            return None, ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition, ErrorCode.NONE

    # Followers.

    def _fetch(self, request: Any, answer: Callable[[Any], object]) -> None:
        names = {}
        for topic in request.topics:
            topic_name = topic.topic or self.broker.metadata.topic_names.get(topic.topic_id, "")
            for asked in topic.partitions:
                names[TopicPartition(topic_name, asked.partition)] = (topic.topic_id, asked)
        follower = request.replica_state.replica_id
        epoch = request.replica_state.replica_epoch
        parts = {name: self._for_follower(name, asked, follower, epoch) for name, (_, asked) in names.items()}
        told = {name: part.high_watermark for name, part in parts.items()}

        def respond() -> None:
            responses = [
                FetchResponse.Response(
                    topic=name.topic, topic_id=topic_id, partitions=[self._read_again(name, asked, parts[name])]
                )
                for name, (topic_id, asked) in names.items()
            ]
            answer(FetchResponse(responses=responses))

        def has_news(name: Hashable) -> bool:
            assert isinstance(name, TopicPartition)
            partition, error = self._led(name, names[name][1].current_leader_epoch)
            if partition is None:
                return error != ErrorCode.NONE
            return partition.log.end_offset > names[name][1].fetch_offset or partition.log.high_watermark > told[name]

        if not names or any(part.error_code or part.records or part.diverging_epoch is not None for part in parts.values()):
            respond()
        else:
            self.replicas.purgatory.wait(list(names), has_news, respond, request.max_wait_ms / 1000)

    def _for_follower(self, name: TopicPartition, asked: Any, follower: int, broker_epoch: int) -> Any:
        partition, error = self._led(name, asked.current_leader_epoch)
        if partition is None:
            return Part(partition_index=name.partition, error_code=error)
        assert partition.leadership is not None
        if follower not in partition.leadership.remote:
            return Part(partition_index=name.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = partition.log
        part = self._read(partition, asked)
        if part.error_code == 0 and part.diverging_epoch is None:
            now = self.broker.process.now_ms()
            if partition.leadership.fetched(follower, asked.fetch_offset, asked.log_start_offset, now, broker_epoch):
                self.replicas.purgatory.check(name)
            part.high_watermark = log.high_watermark
        return part

    def _read(self, partition: ReplicatedPartition, asked: Any) -> Any:
        log = partition.log
        part = Part(partition_index=asked.partition, high_watermark=log.high_watermark, log_start_offset=log.start_offset)
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.epochs.end_offset_for(asked.last_fetched_epoch, log.end_offset)
            if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
                if end < 0:  # an epoch that this leader has never heard of
                    part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                else:
                    part.diverging_epoch = Part.DivergingEpoch(epoch=epoch, end_offset=end)
                return part
        try:
            part.records = log.read(asked.fetch_offset, asked.partition_max_bytes, Isolation.LOG_END).data
        except OffsetOutOfRange:
            part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return part

    def _read_again(self, name: TopicPartition, asked: Any, part: Any) -> Any:
        """What there is now, of a fetch that may have waited."""
        partition, error = self._led(name, asked.current_leader_epoch)
        if partition is None:
            return Part(partition_index=name.partition, error_code=error)
        return part if part.error_code else self._read(partition, asked)

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        (topic,) = request.topics
        (asked,) = topic.partitions
        partition, error = self._led(TopicPartition(topic.name, asked.partition_index), asked.current_leader_epoch)
        answered = ListOffsetsResponse.Topic.Partition(partition_index=asked.partition_index, error_code=error)
        if partition is not None:
            answered.offset = partition.log.start_offset if asked.timestamp == EARLIEST else partition.log.end_offset
        return ListOffsetsResponse(topics=[ListOffsetsResponse.Topic(name=topic.name, partitions=[answered])])

    # Clients.

    def _produce(self, request: Produce, answer: Callable[[Any], object]) -> None:
        partition, error = self._led(request.partition)
        if partition is None:
            answer(Produced(error))
            return
        leadership = partition.leadership
        assert leadership is not None
        try:
            if request.acks_all:
                partition.ensure_enough_replicas()
            info = self.replicas.append_to(partition, request.data)
        except MilepostError as refusal:
            answer(Produced(refusal.code))
            return
        self.broker.history.accepted.append(
            Accepted(self.broker.broker_id, str(request.partition), partition.leader_epoch, self.broker.world.now)
        )
        end = info.last_offset + 1
        if not request.acks_all:
            answer(Produced(ErrorCode.NONE, info.first_offset))
            return
        verdict: list[int] = []

        def is_decided(_: Hashable = None) -> bool:
            if partition.leadership is not leadership or not partition.is_hosted:
                verdict.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                found = leadership.acknowledgement(end, partition.log.config.min_insync_replicas)
                verdict.extend([found] if found is not None else [])
            return bool(verdict)

        def respond() -> None:
            code = verdict[0] if verdict else ErrorCode.REQUEST_TIMED_OUT
            answer(Produced(code, info.first_offset if code == ErrorCode.NONE else -1))

        if is_decided():
            respond()
        else:
            self.replicas.purgatory.wait([request.partition], is_decided, respond, MAX_WAIT_SECONDS)

    def _consume(self, request: Consume) -> Consumed:
        partition, error = self._led(request.partition, request.leader_epoch)
        if partition is None:
            return Consumed(error)
        log = partition.log
        try:
            data = log.read(request.offset, 1 << 16, Isolation.UNCOMMITTED).data
        except MilepostError as refusal:
            return Consumed(refusal.code)
        leader = f"{self.broker.name}.{self.broker.lives}"
        return Consumed(0, data, partition.leader_epoch, log.high_watermark, log.last_stable_offset, log.end_offset, leader)
