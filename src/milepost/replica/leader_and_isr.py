"""LeaderAndIsr and StopReplica: for which partitions this broker is leader or follower.

Both come from the controller over the control plane, and are checked before anything is done:

| what is old or wrong | answer |
|---|---|
| the controller's epoch | 11 STALE_CONTROLLER_EPOCH, for the request and each partition |
| our broker epoch (the request is for an earlier registration) | 77 STALE_BROKER_EPOCH, for the request |
| the leader epoch: not above ours (to stop: below ours) | 11, to stop 74 FENCED_LEADER_EPOCH, for the partition |
| the topic id | 103 INCONSISTENT_TOPIC_ID |
| we are not among the replicas | 3 UNKNOWN_TOPIC_OR_PARTITION |
| our directory failed | 56 KAFKA_STORAGE_ERROR |

Both are done in pieces, a partition after the other: a broker of thousands is told of all of them at once when it starts.

A partition that is stopped keeps its log; one that is to be deleted loses it. A log that no controller mentions stays where it is, as with
Kafka and ZooKeeper: a controller does not name what a broker should not have. A log of an earlier topic of the same name is set aside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias, TypeVar

from milepost.clock import Clock
from milepost.errors import KafkaStorage, MilepostError
from milepost.log.directory import partition_metadata
from milepost.log.directory.partition_metadata import topic_id_text
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import LeaderAndIsrRequest, LeaderAndIsrResponse, StopReplicaRequest, StopReplicaResponse
from milepost.replica.fetchers import Fetchers
from milepost.replica.leadership import IsrChanger, LeaderState
from milepost.replica.manager import ReplicaManager
from milepost.replica.partition import Partition
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.replica")

NO_TOPIC_ID = bytes(16)
NO_BROKER_EPOCH = -1
EPOCH_DURING_DELETE = -2
NO_EPOCH = -1
TOPIC_ID_VERSION = 5
T = TypeVar("T")
Work: TypeAlias = Generator[None, None, T]


class LeaderAndIsrHandler:
    def __init__(
        self,
        replicas: ReplicaManager,
        fetchers: Fetchers,
        changer: IsrChanger,
        clock: Clock,
        max_lag_ms: Callable[[], int],
        broker_epoch: Callable[[], int],
    ):
        self.replicas = replicas
        self.broker_id = replicas.node_id
        self.fetchers = fetchers
        self.changer = changer
        self.clock = clock
        self.max_lag_ms = max_lag_ms
        self.broker_epoch = broker_epoch
        self.is_shutting_down: Callable[[], bool] = lambda: False
        self.controller_epoch = 0
        self.suspensions = 0
        """How often a registration has ended."""
        self.on_leader: Callable[[Partition], object] = lambda partition: None
        self.on_follower: Callable[[Partition], object] = lambda partition: None
        self.on_stopped: Callable[[TopicPartition], object] = lambda name: None

    def refusal(self, controller_epoch: int, broker_epoch: int) -> int:
        """Why a request of a controller is not for us, or of now; also for UpdateMetadata."""
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if broker_epoch != NO_BROKER_EPOCH and broker_epoch < self.broker_epoch():
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    # LeaderAndIsr.

    def leading_and_following(
        self, request: LeaderAndIsrRequest, version: int, fault: int, suspensions: int
    ) -> Work[LeaderAndIsrResponse]:
        """`fault`: what speaks against it already, by what ZooKeeper says. `suspensions`: how many there had been before that was asked;
        what a session has begun ends with it.
        """
        refusal = fault or self.refusal(request.controller_epoch, request.broker_epoch)
        errors: dict[tuple[str, bytes], dict[int, int]] = {}
        for topic, topic_id, state in partition_states(request):
            if self.suspensions != suspensions:
                refusal = refusal or ErrorCode.STALE_BROKER_EPOCH
            of_topic = errors.setdefault((topic, topic_id), {})
            if refusal == ErrorCode.NONE:
                of_topic[state.partition_index] = self._become(TopicPartition(topic, state.partition_index), topic_id, state)
            elif refusal == ErrorCode.STALE_CONTROLLER_EPOCH:
                of_topic[state.partition_index] = refusal
            yield
        return _answer(refusal, errors, version)

    def _become(self, name: TopicPartition, topic_id: bytes, state: Any) -> int:
        if self.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self.replicas.partitions.get(name)
        if partition is not None and NO_TOPIC_ID not in (partition.topic_id, topic_id) and partition.topic_id != topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if partition is not None and partition.log.is_failed:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is not None and state.leader_epoch <= partition.leader_epoch:
            if state.leader_epoch == partition.leader_epoch:
                partition.confirm(leader_state(state))
                self._advance(partition)
            return ErrorCode.STALE_CONTROLLER_EPOCH
        try:
            self._take_role(self._host(name, topic_id), state)
        except KafkaStorage as error:
            logger.error("%s: %s", name, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        except MilepostError as error:
            logger.error("%s: %s", name, error)
            return ErrorCode.INCONSISTENT_TOPIC_ID if getattr(error, "code", 0) == 103 else ErrorCode.UNKNOWN_SERVER_ERROR
        return ErrorCode.NONE

    def _host(self, name: TopicPartition, topic_id: bytes) -> Partition:
        partition = self.replicas.partitions.get(name)
        if partition is None:
            text = topic_id_text(topic_id) if topic_id != NO_TOPIC_ID else None
            self._set_stray_aside(name, text)
            log = self.replicas.logs.create(name, topic_id=text)
            partition = self.replicas.add(log, topic_id)
        if partition.topic_id == NO_TOPIC_ID:
            partition.topic_id = topic_id
        return partition

    def _set_stray_aside(self, name: TopicPartition, topic_id: str | None) -> None:
        """A log of another topic with this name, which was taken out of ZooKeeper while we were away: its records are not this topic's."""
        logs = self.replicas.logs
        log = logs.get(name)
        if log is None or topic_id is None:
            return
        path = f"{log.directory}/{partition_metadata.FILE_NAME}"
        try:
            found = partition_metadata.read_partition_metadata(logs.disk, path)
            if found is None:
                partition_metadata.ensure_topic_id(logs.disk, path, topic_id)
        except OSError as error:
            raise log.fail(error) from error
        if found is not None and found.topic_id != topic_id:
            kept = logs.set_aside(name)
            logger.warning("%s: the log belongs to topic id %s, which was deleted; it is kept as %s", name, found.topic_id, kept)

    def _take_role(self, partition: Partition, state: Any) -> None:
        told = leader_state(state)
        self.fetchers.remove(partition.name)
        was_leader = partition.is_leader
        if state.leader == self.broker_id:
            partition.lead(told, self.changer, self.max_lag_ms()).on_confirmed = lambda: self._advance(partition)
            self.on_leader(partition)
        else:
            partition.follow(state.leader, told)
            if was_leader:
                logger.info("%s: broker %d leads from epoch %d on", partition.name, state.leader, state.leader_epoch)
            self.on_follower(partition)
            # What we hand over because we leave we do not follow: the new leader would count on us again, and wait.
            if not (was_leader and self.is_shutting_down()):
                self.fetchers.follow(partition)
        # Producers that wait for other replicas, and consumers that wait for records, now belong to another leader.
        self._wake(partition)

    def _advance(self, partition: Partition) -> None:
        """Without the replicas that are in sync no more, all others may have what is waited for."""
        if partition.leadership is not None and partition.leadership.advance(self.clock.now_ms()):
            self._wake(partition)

    def _wake(self, partition: Partition) -> None:
        self.replicas.purgatory.check(partition.name)
        self.replicas.purgatory.check(partition.committed_key)

    # StopReplica.

    def stopping(self, request: StopReplicaRequest, version: int, fault: int) -> Work[StopReplicaResponse]:
        refusal = fault or self.refusal(request.controller_epoch, request.broker_epoch)
        errors = []
        if refusal == ErrorCode.NONE:
            for name, leader_epoch, delete in _stopped(request, version):
                code = self._stop(name, leader_epoch, delete)
                errors.append(
                    StopReplicaResponse.PartitionError(topic_name=name.topic, partition_index=name.partition, error_code=code)
                )
                yield
        return StopReplicaResponse(error_code=refusal, partition_errors=errors)

    def _stop(self, name: TopicPartition, leader_epoch: int, delete: bool) -> int:
        partition = self.replicas.partitions.get(name)
        if partition is not None:
            if partition.log.is_failed:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH) and leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
        self.fetchers.remove(name)
        self.on_stopped(name)
        try:
            if partition is None:
                if delete and self.replicas.logs.get(name) is not None:
                    self.replicas.logs.delete(name)
            elif delete:
                self.replicas.drop(name)
                self.replicas.purgatory.check(partition.committed_key)
            else:
                self.replicas.partitions.pop(name)
                partition.is_online = False
                self._wake(partition)
        except KafkaStorage as error:
            logger.error("%s: %s", name, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    # Sessions and time.

    def suspend(self) -> None:
        """Our registration is over: nothing is led before a controller says so in the next."""
        self.suspensions += 1
        for partition in list(self.replicas.partitions.values()):
            if partition.is_leader:
                partition.suspend()
                self._wake(partition)

    def check_lag(self) -> None:
        """Followers that fell behind leave the in-sync replicas. To be called every half of `replica.lag.time.max.ms`."""
        now = self.clock.now_ms()
        for partition in list(self.replicas.partitions.values()):
            if partition.leadership is not None and not partition.is_suspended:
                partition.leadership.check_lag(now)


def leader_state(state: Any) -> LeaderState:
    return LeaderState(
        state.leader_epoch,
        frozenset(state.isr),
        tuple(state.replicas),
        state.partition_epoch,
        state.leader_recovery_state == 1,
    )


def partition_states(request: LeaderAndIsrRequest) -> Iterator[tuple[str, bytes, Any]]:
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield topic.topic_name, topic.topic_id, state
    for ungrouped in request.ungrouped_partition_states:
        yield ungrouped.topic_name, NO_TOPIC_ID, ungrouped


def _answer(refusal: int, errors: dict[tuple[str, bytes], dict[int, int]], version: int) -> LeaderAndIsrResponse:
    response = LeaderAndIsrResponse(error_code=refusal)
    if version >= TOPIC_ID_VERSION:
        response.topics = [
            LeaderAndIsrResponse.Topic(
                topic_id=topic_id,
                partition_errors=[
                    LeaderAndIsrResponse.Topic.PartitionError(partition_index=number, error_code=code)
                    for number, code in of_topic.items()
                ],
            )
            for (_, topic_id), of_topic in errors.items()
        ]
    else:
        response.partition_errors = [
            LeaderAndIsrResponse.PartitionError(topic_name=topic, partition_index=number, error_code=code)
            for (topic, _), of_topic in errors.items()
            for number, code in of_topic.items()
        ]
    return response


def _stopped(request: StopReplicaRequest, version: int) -> Iterator[tuple[TopicPartition, int, bool]]:
    """(partition, leader epoch, whether to delete) in every version of the request."""
    if version >= 3:
        for topic in request.topic_states:
            for state in topic.partition_states:
                yield TopicPartition(topic.topic_name, state.partition_index), state.leader_epoch, state.delete_partition
    elif version >= 1:
        for named in request.topics:
            for number in named.partition_indexes:
                yield TopicPartition(named.name, number), NO_EPOCH, request.delete_partitions
    else:
        for each in request.ungrouped_partitions:
            yield TopicPartition(each.topic_name, each.partition_index), NO_EPOCH, request.delete_partitions
