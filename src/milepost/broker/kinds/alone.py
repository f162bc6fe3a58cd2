"""A broker that is the whole cluster.

What it must remember of its cluster lies beside its logs (`cluster/solo`). Who it is stands in `meta.properties`, the same in each of its
directories: a directory that was never used gets it on the first start, one that Kafka left behind keeps what it says.

Topics that are found in a directory and that nobody has written down were Kafka's. Their records are there, but not what Kafka keeps
elsewhere, in ZooKeeper or in its own log of metadata:

    settings       how long records stay is not known, so they stay: `retention.ms` and `retention.bytes` are -1 until they are set.
                   Internal topics get the settings that their coordinators need: they are compacted.
    producer ids   those that producers and transactional ids have are not given away again: a new producer with the id of an
                   old one would have its first batches taken for repetitions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Unpack

from milepost.broker.broker import Broker, Surroundings, configured, configured_id, topic_id_on_disk
from milepost.broker.configs.dynamic_config import apply, in_force, settings_of_topics, use_config
from milepost.broker.dispatch import served_apis
from milepost.broker.internal_topics.coordinator_log import offsets_topic, transactions_topic
from milepost.broker.internal_topics.coordinators import Coordinators
from milepost.broker.internal_topics.transaction_markers import MarkerWriter
from milepost.broker.topology import alone
from milepost.broker.topology.alone_topics import AloneTopics
from milepost.cluster.change_log import ChangeLog
from milepost.cluster.solo import KnownTopic, SoloCluster
from milepost.config.broker import BrokerConfig
from milepost.config.security import wants_login
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.partition_metadata import random_topic_id
from milepost.replica.manager import ReplicaManager

DEFAULT_NODE = 0


class AloneBroker(Broker):
    cluster: SoloCluster

    def __init__(self, config: BrokerConfig | Mapping[str, object], **surroundings: Unpack[Surroundings]):
        known = configured(config)
        super().__init__(known, served_apis(with_login=wants_login(known)), **surroundings)
        given, logs = self.config, self.logs
        with self.abandoned_if_it_fails():
            logs.open_directories()
            cluster_id, self.node_id = identify(logs.directories, configured_id(given), self.rng)
            changes = ChangeLog(given.directories[0], logs.disk)
            self.cluster = SoloCluster(changes, self.rng, cluster_id, self.node_id, logs.scheduler)
            self.membership = NobodyElse(self.cluster)
            if self.acl_authorizer is not None:
                self.acl_authorizer.acls = self.cluster.index_acls()
            # The topics' settings are known before their logs are opened.
            self.use_config(in_force(given, self.cluster.broker_configs, self.node_id))
            logs.topics = settings_of_topics(self.cluster, self.config)
            logs.load_directories()
            self.replicas = ReplicaManager(logs, self.loop, self.node_id)
            topics = AloneTopics(self, self.cluster)
            self.topology = alone.topology(self, self.cluster, topics)
            self.offsets_topic = offsets_topic(self, make=topics.make_at_once)
            self.transactions_topic = transactions_topic(self, make=topics.make_at_once)
            topics.finish_deletions()
            self.adopted = self._adopt()
            topics.host_all()
            # The coordinators read their topics before the first client is read.
            self.write_markers = MarkerWriter(self)
            self.coordinators = Coordinators(self, is_alone=True)
            self.coordinators.start()
            self._load_adopted()
            apply(self)

    def _adopt(self) -> list[str]:
        cluster, logs = self.cluster, self.logs
        known = {*cluster.topics, *cluster.being_deleted}
        strangers = ((name, topic_id_on_disk(logs, log.directory)) for name, log in logs.logs.items() if name.topic not in known)
        internal = (self.offsets_topic, self.transactions_topic)
        return cluster.adopt(strangers, {topic.name: KnownTopic(topic.configs) for topic in internal})

    def _load_adopted(self) -> None:
        """What was just adopted, and is loaded."""
        if self.adopted:
            use_config(self, self.config)
            ids = {producer_id for log in self.logs.logs.values() for producer_id in log.producers.producers}
            ids |= {transaction.producer_id for transaction in self.transactions.all()}
            self.cluster.skip_producer_ids(max(ids, default=-1))


class NobodyElse:
    """The membership of a broker that is the whole cluster."""

    def __init__(self, cluster: SoloCluster):
        self._cluster = cluster

    def join(self) -> None:
        """There is nobody to tell."""

    def settle(self) -> None:
        """There is nothing to learn."""

    def leave(self, stop: Callable[[], object]) -> None:
        stop()

    def withdraw(self) -> None:
        """Nobody was told anything."""

    def keep(self) -> None:
        self._cluster.close()

    def end(self) -> None:
        """Nothing is left."""


class Identity(NamedTuple):
    cluster_id: str
    node_id: int


def identify(directories: Sequence[DataDirectory], node_id: int, rng: random.Random) -> Identity:
    """Whose directories these are; written down where nothing is said yet.

    With `broker.id` at its default, 0, the broker takes the number that it had there. Directories of two clusters, or of another broker
    than the configuration says, are refused: their records would be mixed up.
    """
    known = [meta for meta in (directory.read_meta() for directory in directories) if meta is not None]
    cluster_id = next((meta.cluster_id for meta in known if meta.cluster_id), None) or random_topic_id(rng)
    if node_id == DEFAULT_NODE:
        node_id = next((meta.node_id for meta in known if meta.node_id is not None), node_id)
    version = known[0].version if known else 0
    for directory in directories:
        directory.claim(cluster_id, node_id, version)
    return Identity(cluster_id, node_id)
