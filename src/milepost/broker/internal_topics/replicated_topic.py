"""An internal topic in a cluster: an append counts when all in-sync replicas have it, and only its leader can make one.

The topic is made when somebody looks for a coordinator (`topology/zookeeper`), with the replication factor of its setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.internal_topics.coordinator_log import Done, InternalTopic, Topics
from milepost.errors import MilepostError
from milepost.log.producer_state.producer_entry import AppendOrigin
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.log.producer_state.verification import VerificationGuard


class ReplicatedTopic(InternalTopic):
    def __init__(self, broker: Topics, name: str, partition_count: int, configs: dict[str, str], factor: int):
        super().__init__(broker, name, partition_count, configs)
        self.factor = factor

    def ensure(self) -> None:
        """It is there, or nobody would coordinate anything."""

    def append_batch(self, partition: int, batch: bytes, done: Done, guard: VerificationGuard | None = None) -> None:
        name, replicas = TopicPartition(self.name, partition), self._broker.replicas
        hosted = replicas.partition(name)
        if hosted is None:
            done(self._broker.missing_partition(name))
            return
        try:
            info = hosted.append(batch, AppendOrigin.COORDINATOR, guard, for_all=True)
        except MilepostError as error:
            done(error.code)
            return
        seconds = self._broker.config.offsets_commit_timeout_ms / 1000
        replicas.when_committed([(hosted, info.last_offset + 1)], seconds, lambda errors: done(errors[name]))
