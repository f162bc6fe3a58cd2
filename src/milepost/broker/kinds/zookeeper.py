"""A broker in a cluster with ZooKeeper: the controller decides what it leads and what it follows.

It is known to others from when its life begins: the session with ZooKeeper is begun then, and the broker registered, before anything is
read. At the end what it leads is handed over (ControlledShutdown), then everything is closed, the session last.

Its loop, session and network are sockets and a real ZooKeeper here, models of them in a simulation (`make_runtime`, `connect`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Unpack

from milepost.broker.broker import Broker, Surroundings, configured, configured_id
from milepost.broker.configs.cluster_settings import ClusterSettings
from milepost.broker.dispatch import handled_apis
from milepost.broker.exclusive_gate import GatedLoop
from milepost.broker.features import GROUP_VERSION, TRANSACTION_VERSION
from milepost.broker.gated_peers import GatedPeers
from milepost.broker.internal_topics.coordinator_log import offsets_topic, transactions_topic
from milepost.broker.internal_topics.coordinators import Coordinators
from milepost.broker.internal_topics.marker_sender import MarkerSender
from milepost.broker.runtime import MakeRuntime, sockets
from milepost.broker.slices import Work
from milepost.broker.topology import zookeeper
from milepost.broker.topology.zookeeper_topics import ZooKeeperTopics
from milepost.cluster.controlled_shutdown import ControlledShutdown
from milepost.cluster.controller.controller import Controller
from milepost.cluster.controller.controller_parts import ControllerSettings
from milepost.cluster.controller_channel import ControllerChannel
from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.cluster.isr_proposals import AlterPartitionProposals, ZnodeProposals
from milepost.cluster.member import ClusterMember, MemberSettings
from milepost.cluster.producer_id_blocks import ProducerIdBlocks
from milepost.cluster.protocol_versions import ProtocolVersions, protocol_versions
from milepost.cluster.zookeeper.operations import Create
from milepost.cluster.zookeeper.session import Session, Steps, retried
from milepost.cluster.zookeeper.znodes import LOG_DIR_EVENT, BrokerNode, log_dir_event
from milepost.config.broker import BrokerConfig
from milepost.config.listeners import inter_broker_listener, protocols_of
from milepost.errors import BrokerUnavailable, MilepostError
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.partition_metadata import random_topic_id
from milepost.protocol.apis import BY_KEY, Api
from milepost.protocol.messages import UpdateMetadataRequest
from milepost.replica.broker_proof import BrokerProof
from milepost.replica.counted_isr_changes import CountedIsrChanges
from milepost.replica.fence import Fence
from milepost.replica.fetcher import FetcherSettings
from milepost.replica.fetchers import Fetchers
from milepost.replica.leader_and_isr import LeaderAndIsrHandler
from milepost.replica.leadership import IsrChanger
from milepost.replica.manager import ReplicaManager
from milepost.replica.metadata import Endpoint
from milepost.replica.peers import Peers
from milepost.replica.replication_quota import ReplicationQuotas
from milepost.topic_partition import TopicPartition
from milepost.work import Turn

if TYPE_CHECKING:
    from milepost.broker.topology.zookeeper_acls import ZooKeeperAcls

logger = logging.getLogger("milepost.broker")

SETTLE_SECONDS = 10.0
# As Kafka 3.9 with ZooKeeper: transactions of version 0. Groups of the consumer protocol are ours to add.
FEATURE_LEVELS = {GROUP_VERSION: 1, TRANSACTION_VERSION: 0}
OLD_VERSIONS_TOO = (27, 56)
DESCRIBE_QUORUM = 55


class Connections(NamedTuple):
    """How a broker reaches the others, and how they reach it."""

    session: Session
    peers: Peers
    endpoints: Sequence[Endpoint]


class ZooKeeperBroker(Broker):
    cluster: ControllerMetadata

    def __init__(
        self,
        config: BrokerConfig | Mapping[str, object],
        *,
        make_runtime: MakeRuntime = sockets,
        connect: Callable[[ZooKeeperBroker], Connections] | None = None,
        **surroundings: Unpack[Surroundings],
    ):
        super().__init__(configured(config), served_apis(), cluster_parts=self, make_runtime=make_runtime, **surroundings)
        with self.abandoned_if_it_fails():
            given, logs, loop = self.config, self.logs, self.loop
            self.node_id = configured_id(given)
            self.versions = protocol_versions(given.inter_broker_protocol_version)
            control = given.control_plane_listener_name
            self.inter_broker_listener = inter_broker_listener(given)
            self.broker_listeners = {self.inter_broker_listener} | ({control} if control else set())
            self.proof = BrokerProof(self.node_id, is_required=given.milepost_broker_proof_required)
            self.proof.warn_if_open(self.broker_listeners)
            session, self.peers, endpoints = by_sockets(self) if connect is None else connect(self)
            logs.open_directories()
            cluster_id = known_cluster_id(logs.directories, self.node_id)
            self.cluster = ControllerMetadata(self.node_id, FEATURE_LEVELS)
            self.adopted = []
            self.use_config(given)
            logs.load_directories()
            self.member = self._make_member(session, endpoints, cluster_id or random_topic_id(self.rng))
            self.controller_channel = ControllerChannel(self.cluster, self.peers, loop)
            self.fence = Fence(loop.monotonic, loop, given.zookeeper_session_timeout_ms / 1000, self.member.ask_zookeeper)
            self.replicas = ReplicaManager(logs, loop, self.node_id, self.fence.is_fenced)
            self.replication_quotas = ReplicationQuotas(self.node_id, given, lambda: int(loop.monotonic() * 1000))
            self.fetchers = self._make_fetchers()
            self.isr_changes = CountedIsrChanges(self._isr_changer())
            self.leader_and_isr = LeaderAndIsrHandler(
                self.replicas,
                self.fetchers,
                self.isr_changes,
                self.clock,
                lambda: self.config.replica_lag_time_max_ms,
                lambda: self.member.broker_epoch,
            )
            self.turn_of_controller = Turn()
            self.producer_ids = ProducerIdBlocks(self.member, self.controller_channel, self.versions)
            self.controlled_shutdown = ControlledShutdown(self.member, self.controller_channel, self.versions, loop)
            self.topics = ZooKeeperTopics(self)
            self.settings = ClusterSettings(self)
            self.acls = self._make_acls()
            self.offsets_topic = offsets_topic(self, factor=given.offsets_topic_replication_factor)
            self.transactions_topic = transactions_topic(
                self,
                factor=given.transaction_state_log_replication_factor,
                min_isr=given.transaction_state_log_min_isr,
            )
            self.topology = zookeeper.topology(self)
            self.write_markers = MarkerSender(self)
            self.coordinators = Coordinators(self, is_alone=False)
            self.membership = ZooKeeperMembership(self)
            self._listen_to_parts()

    def _make_member(self, session: Session, endpoints: Sequence[Endpoint], cluster_id: str) -> ClusterMember:
        config = self.config
        return ClusterMember(
            MemberSettings(
                BrokerNode(tuple(endpoints), config.broker_rack),
                ControllerSettings(
                    self.node_id,
                    self.versions,
                    self.inter_broker_listener,
                    lambda: self.config.unclean_leader_election_enable,
                    config.auto_leader_rebalance_enable,
                    config.leader_imbalance_check_interval_seconds,
                    config.leader_imbalance_per_broker_percentage,
                    config.delete_topic_enable,
                ),
                config.zookeeper_session_timeout_ms / 1000,
                cluster_id,
                has_authorizer=self.acl_authorizer is not None,
            ),
            session,
            self.peers,
            self.loop,
            self.loop.monotonic,
            self.clock,
            self.cluster,
            partial(random_topic_id, self.rng),
        )

    def _make_fetchers(self) -> Fetchers:
        return Fetchers(
            fetcher_settings(self.node_id, self.config, self.versions),
            self.peers,
            self.loop,
            self.clock,
            lambda: self.cluster.brokers,
            lambda: self.member.broker_epoch,
            self._replicated,
            self._replica_failed,
            self.replication_quotas.follower,
            self.config.num_replica_fetchers,
        )

    def _make_acls(self) -> ZooKeeperAcls | None:
        if self.acl_authorizer is None:
            return None
        from milepost.broker.topology.zookeeper_acls import ZooKeeperAcls  # of brokers that have an authorizer

        return ZooKeeperAcls(self.member, self.acl_authorizer)

    def _isr_changer(self) -> IsrChanger:
        if self.versions.has_alter_partition:
            return AlterPartitionProposals(self.cluster, self.controller_channel, self.versions, lambda: self.member.broker_epoch)
        return ZnodeProposals(self.cluster, self.member.run, self.loop, lambda: self.leader_and_isr.controller_epoch)

    def _listen_to_parts(self) -> None:
        member, leader_and_isr = self.member, self.leader_and_isr
        member.on_cluster_id = self._take_cluster_id
        member.on_secret = lambda secret: self.proof.take(secret, self.cluster.cluster_id.encode())
        member.on_settings = self.settings.take_all
        member.on_changed_settings = self.settings.changed
        if self.acls is not None:
            member.on_acls = self.acls.take_all
            member.on_changed_acls = self.acls.take
        member.on_expired_session = leader_and_isr.suspend
        member.on_failed = self._cannot_be_member
        self.logs.on_offline = self._directory_failed
        self.logs.goes_offline_when_full = True
        leader_and_isr.on_leader = self.coordinators.leads
        leader_and_isr.on_follower = lambda partition: self.coordinators.lost(partition.name)
        leader_and_isr.on_stopped = self.coordinators.lost
        leader_and_isr.is_shutting_down = lambda: self.controlled_shutdown.is_shutting_down

    def _take_cluster_id(self, cluster_id: str) -> None:
        self.cluster.cluster_id = cluster_id
        for directory in self.logs.directories:
            directory.claim(cluster_id, self.node_id)

    # What the controller sends.

    @property
    def controller(self) -> Controller | None:
        """While this broker is it, and knows what there is."""
        controller = self.member.controller if self.member.is_controller else None
        return controller if controller is not None and controller.is_ready else None

    def taking_metadata(self, request: UpdateMetadataRequest) -> Work[None]:
        """An UpdateMetadata that is not old."""
        before = self.cluster.brokers
        deleted = yield from self.cluster.updating(request)
        for broker_id in before.keys() - self.cluster.brokers.keys():
            self.peers.forget(broker_id)
        self.fetchers.leaders_changed()
        names = {topic.topic_name for topic in request.topic_states}
        names |= {state.topic_name for state in request.ungrouped_partition_states}
        self.topics.metadata_changed(names)
        if not before:
            self.replicas.purgatory.check(zookeeper.BROKERS)
        self.coordinators.topics_changed()
        gone = sorted({name.topic for name in deleted if name.topic not in self.cluster.topics})
        for name in gone:
            self.settings.forget_topic(name)
        if gone:
            self.coordinators.topics_deleted(gone)
        self.member.with_topic_settings({name for name in names if name in self.cluster.topics}, lambda: None, lambda: None)

    # Replication.

    def _replicated(self, name: TopicPartition, size: int) -> None:
        """A follower of ours has more, or knows more to be committed."""
        self.replicas.topic_metrics.replication_bytes_in += size
        purgatory = self.replicas.purgatory
        if purgatory.watchers:
            partition = self.replicas.partitions.get(name)
            if partition is not None:
                purgatory.check(partition.committed_key)

    def _cannot_be_member(self, error: Exception) -> None:
        """Another broker has our id, or ours is another cluster: nothing that is served here would be right."""

        def end() -> None:
            raise error

        self.loop.post(end)

    def _directory_failed(self, path: str) -> None:
        """The controller is notified; it asks what is lost with the directory, and elects other leaders."""
        logger.error("data directory %s failed; notifying the controller", path)

        def note() -> Steps[None]:
            yield from retried([Create(LOG_DIR_EVENT, log_dir_event(self.node_id), sequence=True)])

        self.loop.post(lambda: self.member.run(note()))

    def _replica_failed(self, name: TopicPartition, error: MilepostError) -> None:
        logger.error("%s: stopped fetching: %s", name, error)


class ZooKeeperMembership:
    def __init__(self, broker: ZooKeeperBroker):
        self._broker = broker

    def join(self) -> None:
        """Be registered."""
        broker = self._broker
        member, config = broker.member, broker.config
        member.start()
        timeout_ms = config.zookeeper_connection_timeout_ms or config.zookeeper_session_timeout_ms
        # A znode of our last session may have to run out first.
        until = broker.loop.monotonic() + (timeout_ms + 2 * config.zookeeper_session_timeout_ms) / 1000
        broker.server.loop.run_until(lambda: member.is_registered or member.failure is not None, until)
        if member.failure is not None:
            raise member.failure
        if not member.is_registered:
            raise BrokerUnavailable(f"ZooKeeper at {config.zookeeper_connect} does not answer; zookeeper.connect names it")
        self.start_timers()

    def start_timers(self) -> None:
        """What goes on by the clock."""
        self._broker.fence.start()
        self._broker.coordinators.start()
        self._check_lag()

    def _check_lag(self) -> None:
        self._broker.leader_and_isr.check_lag()
        self._broker.loop.later(self._broker.config.replica_lag_time_max_ms / 2000, self._check_lag)

    def settle(self) -> None:
        """Wait for the first UpdateMetadata, if there is a controller: clients that see no brokers at all may not ask again soon."""
        broker = self._broker
        broker.server.loop.run_until(lambda: broker.node_id in broker.cluster.brokers, broker.loop.monotonic() + SETTLE_SECONDS)

    def leave(self, stop: Callable[[], object]) -> None:
        """Hand over what is led, if there is somebody to take it."""
        broker = self._broker
        if broker.config.controlled_shutdown_enable:
            broker.loop.post(lambda: broker.controlled_shutdown.start(stop, broker.config))
        else:
            stop()

    def withdraw(self) -> None:
        self._broker.controller_channel.close()
        self._broker.fetchers.close()
        self._broker.fence.stop()

    def keep(self) -> None:
        """ZooKeeper keeps it."""

    def end(self) -> None:
        self._broker.member.close()


def by_sockets(broker: ZooKeeperBroker) -> Connections:
    # Here and not at the top: a simulation has neither sockets nor a real ZooKeeper.
    from milepost.cluster.zookeeper.kazoo_session import KazooSession
    from milepost.replica.loop_peers import LoopPeers

    config, loop = broker.config, broker.server.loop
    assert config.zookeeper_connect is not None
    session = KazooSession(config.zookeeper_connect, broker.loop, timeout=config.zookeeper_session_timeout_ms / 1000)
    peers: Peers = LoopPeers(loop, broker.node_id, broker.inter_broker_listener, config.control_plane_listener_name, broker.proof)
    if isinstance(broker.loop, GatedLoop):
        peers = GatedPeers(peers, loop, broker.loop)
    protocols = protocols_of(config.listener_security_protocol_map)
    names = [acceptor.listener for acceptor in broker.server.all_acceptors]
    endpoints = [Endpoint(name, protocols[name], *broker.advertised(name)) for name in names]
    return Connections(session, peers, endpoints)


def served_apis() -> dict[int, Api]:
    """All that have a handler. Brokers of an older protocol send versions of some that Kafka 4 has dropped."""
    served = handled_apis() | {key: BY_KEY[key]._replace(served=BY_KEY[key].known) for key in OLD_VERSIONS_TOO}
    del served[DESCRIBE_QUORUM]  # as with Kafka and ZooKeeper: the controller is elected, without a quorum
    return served


def known_cluster_id(directories: Sequence[DataDirectory], node_id: int) -> str | None:
    """What the directories say, none of which may be another broker's."""
    known = [meta for meta in (directory.read_meta() for directory in directories) if meta is not None]
    for meta in known:
        meta.ensure_same("meta.properties", None, node_id)
    return next((meta.cluster_id for meta in known if meta.cluster_id), None)


def fetcher_settings(broker_id: int, config: BrokerConfig, versions: ProtocolVersions) -> FetcherSettings:
    return FetcherSettings(
        broker_id,
        versions.fetch,
        versions.list_offsets,
        versions.offset_for_leader_epoch,
        versions.truncates_on_fetch,
        config.replica_fetch_wait_max_ms,
        config.replica_fetch_min_bytes,
        config.replica_fetch_max_bytes,
        config.replica_fetch_response_max_bytes,
        config.replica_fetch_backoff_ms,
    )
