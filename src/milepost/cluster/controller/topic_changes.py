"""Topics that are made, grow, or vanish: the children of /brokers/topics and what is in them.

Any broker, or a tool of Kafka's, writes the topic's znode; the controller notices, gives the topic an id if it has none, and chooses the
first leaders: partition and replicas New, then Online.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from milepost.cluster.controller.context import Replica
from milepost.cluster.controller.controller_parts import ControllerParts
from milepost.cluster.controller.states import PartitionStatus, ReplicaStatus
from milepost.cluster.controller_election import write_until_answered
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Children, Get, SetData
from milepost.cluster.zookeeper.refusals import log_refusals
from milepost.cluster.zookeeper.session import Separately, Steps
from milepost.cluster.zookeeper.znodes import TopicNode
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.cluster")


class TopicChanges:
    def __init__(self, parts: ControllerParts, new_topic_id: Callable[[], str]):
        self.parts = parts
        self.context = parts.context
        self.new_topic_id = new_topic_id

    def load(self) -> Steps[None]:
        """All topics there are, when a controller takes office."""
        yield from self._take_in((yield from self._listed()))

    def changed(self) -> Steps[None]:
        """The list of topics is not what it was."""
        current = yield from self._listed()
        for topic in self.context.topic_ids.keys() - current:
            self.context.forget_topic(topic)
        new = current - self.context.topic_ids.keys()
        yield from self._take_in(new)
        yield from self._bring_online([partition for topic in sorted(new) for partition in self.context.partitions_of(topic)])

    def grown(self, topic: str) -> Steps[None]:
        """A topic's znode was written: partitions may have been added. What else changed is not for others to decide."""
        (answer,) = yield [Get(znodes.topic_path(topic), watch=True)]
        node = znodes.parse_topic(answer.data) if answer.ok else None
        if node is None or topic not in self.context.topic_ids:
            return
        added = {number: each for number, each in node.partitions.items() if number not in self.context.assignments[topic]}
        if not added:
            return
        if topic in self.context.deleting:
            logger.warning("topic %s is being deleted, and does not grow", topic)
            yield from self._write(topic, TopicNode(dict(self.context.assignments[topic]), self.context.topic_ids[topic]))
            return
        self.context.assignments[topic] |= added
        yield from self._bring_online([TopicPartition(topic, number) for number in added])

    def _listed(self) -> Steps[set[str]]:
        (listed,) = yield [Children(znodes.TOPICS, watch=True)]
        return set(listed.children)

    def _take_in(self, topics: set[str]) -> Steps[None]:
        names = sorted(topics)
        reads = [Get(znodes.topic_path(topic), watch=True) for topic in names]
        answers = yield Separately(reads)
        log_refusals("a topic is not known", reads, answers)
        for topic, answer in zip(names, answers, strict=True):
            node = znodes.parse_topic(answer.data) if answer.ok else None
            if node is None:
                if answer.ok:
                    logger.warning("%s is ignored: it does not describe a topic", znodes.topic_path(topic))
                continue
            if node.topic_id is None and self.parts.settings.versions.has_topic_ids:
                node = node._replace(topic_id=self.new_topic_id())
                yield from self._write(topic, node)
            self.context.topic_ids[topic] = node.topic_id
            self.context.assignments[topic] = dict(node.partitions)

    def _write(self, topic: str, node: TopicNode) -> Steps[None]:
        data = znodes.topic(node, self.parts.settings.versions.topic_znode)
        yield from write_until_answered(self.parts.term, [SetData(znodes.topic_path(topic), data)])

    def _bring_online(self, partitions: list[TopicPartition]) -> Steps[None]:
        replicas = [Replica(partition, each) for partition in partitions for each in self.context.replicas_of(partition)]
        yield from self.parts.partitions.change(partitions, PartitionStatus.NEW)
        yield from self.parts.replicas.change(replicas, ReplicaStatus.NEW)
        yield from self.parts.partitions.change(partitions, PartitionStatus.ONLINE)
        yield from self.parts.replicas.change(replicas, ReplicaStatus.ONLINE)
