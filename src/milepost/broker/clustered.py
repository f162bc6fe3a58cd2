"""A broker that is one of several: what ZooKeeper and its controller tell it decides what it leads and what it follows.

    start   the listeners are bound, the logs loaded, the session with ZooKeeper begun, the broker registered; only then is anything read
    stop    what it leads is handed over (ControlledShutdown), then everything is closed, the session last

`assemble` puts the parts together over whatever loop, session and network it is given: sockets and a real ZooKeeper here, models of them
in a simulation.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.authorizer import EVERYBODY, Authorizer
from milepost.broker.broker import Broker
from milepost.broker.cluster_dispatch import ClusterDispatcher
from milepost.broker.configs.cluster_settings import ClusterSettings
from milepost.broker.features import GROUP_VERSION, TRANSACTION_VERSION
from milepost.broker.fetch import follower, repeated
from milepost.broker.fetch.replica_id import refuse_follower, replica_id_of
from milepost.broker.fetcher_settings import fetcher_settings
from milepost.broker.internal_topics.cluster_coordinators import ClusterCoordinators
from milepost.broker.internal_topics.coordinator_log import configs_of_offsets, configs_of_transactions
from milepost.broker.internal_topics.marker_sender import MarkerSender
from milepost.broker.internal_topics.replicated_topic import ReplicatedTopic
from milepost.broker.internal_topics.transaction_verification import ask_coordinator
from milepost.broker.nearest_replica import nearest_replica
from milepost.broker.peers_in_turn import PeersInTurn
from milepost.broker.topology import zookeeper
from milepost.broker.topology.zookeeper_topics import ZooKeeperTopics
from milepost.broker.turnstile import TurnstileLoop
from milepost.clock import Clock
from milepost.cluster.controller.controller import Controller
from milepost.cluster.controller.office import ControllerSettings
from milepost.cluster.controller_link import ControllerLink
from milepost.cluster.isr_proposals import AlterPartitionProposals, ZnodeProposals
from milepost.cluster.leaving import Leaving
from milepost.cluster.member import Member, MemberSettings
from milepost.cluster.producer_id_blocks import ProducerIdBlocks
from milepost.cluster.protocol_versions import protocol_versions
from milepost.cluster.told import ToldCluster
from milepost.cluster.zookeeper.operations import Create
from milepost.cluster.zookeeper.session import Session, Steps
from milepost.cluster.zookeeper.znodes import LOG_DIR_EVENT, BrokerNode, log_dir_event
from milepost.config.broker import BrokerConfig
from milepost.config.listeners import parse_listener
from milepost.coordinator.hashing import partition_of
from milepost.errors import BrokerUnavailable, MilepostError
from milepost.files import Disk
from milepost.log.directory.meta_properties import MetaProperties
from milepost.log.directory.partition_metadata import random_topic_id
from milepost.loop import Loop
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import FetchRequest, FetchResponse, UpdateMetadataRequest
from milepost.replica.broker_proof import BrokerProof
from milepost.replica.counted_isr_changes import CountedIsrChanges
from milepost.replica.fence import Fence
from milepost.replica.fetchers import Fetchers
from milepost.replica.leadership import IsrChanger
from milepost.replica.manager import ReplicaManager
from milepost.replica.metadata import Endpoint
from milepost.replica.partition import Partition
from milepost.replica.peers import Peers
from milepost.replica.replication_quota import ReplicationQuotas
from milepost.replica.roles import Roles
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.telemetry.replication_facts import AmongOthers
    from milepost.coordinator.transactions.transaction import Producer
    from milepost.coordinator.transactions.transaction_admission import Admission

logger = logging.getLogger("milepost.broker")

SETTLE_SECONDS = 10.0
# As Kafka 3.9 with ZooKeeper: transactions of version 0. Groups of the consumer protocol are ours to add.
FEATURE_LEVELS = {GROUP_VERSION: 1, TRANSACTION_VERSION: 0}


class ClusteredBroker(Broker):
    cluster: ToldCluster
    offsets_topic: ReplicatedTopic
    transactions_topic: ReplicatedTopic

    def __init__(
        self,
        config: BrokerConfig | Mapping[str, object],
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        disk: Disk | None = None,
        authorizer: Authorizer = EVERYBODY,
    ):
        super().__init__(config, clock=clock, rng=rng, disk=disk)
        self.versions = protocol_versions(self.config.inter_broker_protocol_version)
        listeners = [parse_listener(each).name for each in self.config.listeners]
        control = self.config.control_plane_listener_name
        self.inter_broker_listener = self.config.inter_broker_listener_name or next(
            (name for name in listeners if name != control), listeners[0]
        )
        self.broker_listeners = {self.inter_broker_listener} | ({control} if control else set())
        self.proof = BrokerProof(self.node_id, is_required=self.config.milepost_broker_proof_required)
        self.dispatcher = ClusterDispatcher(self, authorizer)
        self.taken_over = []

    # Starting.

    def _load(self) -> None:
        self.proof.warn_if_open(self.broker_listeners)
        # Here and not at the top: a simulation has neither sockets nor a real ZooKeeper.
        from milepost.cluster.zookeeper.kazoo_session import KazooSession
        from milepost.replica.loop_peers import LoopPeers

        assert self.config.zookeeper_connect is not None
        session = KazooSession(self.config.zookeeper_connect, self.loop, timeout=self.config.zookeeper_session_timeout_ms / 1000)
        peers: Peers = LoopPeers(
            self.server.loop, self.node_id, self.inter_broker_listener, self.config.control_plane_listener_name, self.proof
        )
        if isinstance(self.loop, TurnstileLoop):
            peers = PeersInTurn(peers, self.server.loop, self.loop)
        self.assemble(self.loop, session, peers, self._endpoints())

    def _endpoints(self) -> list[Endpoint]:
        return [Endpoint(each.listener, "PLAINTEXT", *self.advertised(each.listener)) for each in self.server.all_acceptors]

    def assemble(self, loop: Loop, session: Session, peers: Peers, endpoints: Sequence[Endpoint]) -> None:
        """Load the logs and make every part. `member.start` begins the broker's life in the cluster."""
        config = self.config
        self.loop = self.timers = loop
        self.peers = peers
        self.logs.open_directories()
        known = [meta for meta in (directory.read_meta() for directory in self.logs.directories) if meta is not None]
        for meta in known:
            meta.ensure_same("meta.properties", None, self.node_id)
        self.cluster = ToldCluster(self.node_id, FEATURE_LEVELS)
        self.logs.load_directories()
        self.logs.verifies_transactions = config.transaction_partition_verification_enable
        self.member = Member(
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
                next((meta.cluster_id for meta in known if meta.cluster_id), None) or random_topic_id(self.rng),
            ),
            session,
            peers,
            loop,
            loop.monotonic,
            self.clock,
            self.cluster,
            partial(random_topic_id, self.rng),
        )
        self.link = ControllerLink(self.cluster, peers, loop)
        self.fence = Fence(loop.monotonic, loop, config.zookeeper_session_timeout_ms / 1000, self.member.ask_zookeeper)
        self.replicas = ReplicaManager(self.logs, loop, self.node_id, self.fence.is_raised)
        self.replication_quotas = ReplicationQuotas(self.node_id, config, lambda: int(loop.monotonic() * 1000))
        self.fetchers = self._make_fetchers(peers, loop)
        self.isr_changes = CountedIsrChanges(self._isr_changer())
        self.roles = Roles(
            self.replicas,
            self.fetchers,
            self.isr_changes,
            self.clock,
            lambda: self.config.replica_lag_time_max_ms,
            lambda: self.member.broker_epoch,
        )
        self.producer_ids = ProducerIdBlocks(self.member, self.link, self.versions)
        self.leaving = Leaving(self.member, self.link, self.versions, loop)
        self.roles.is_leaving = lambda: self.leaving.is_leaving
        self.topics = ZooKeeperTopics(self)
        self.settings = ClusterSettings(self)
        self.offsets_topic = ReplicatedTopic(
            self,
            "__consumer_offsets",
            config.offsets_topic_num_partitions,
            configs_of_offsets(config),
            config.offsets_topic_replication_factor,
        )
        self.transactions_topic = ReplicatedTopic(
            self,
            "__transaction_state",
            config.transaction_state_log_num_partitions,
            configs_of_transactions(config, config.transaction_state_log_min_isr),
            config.transaction_state_log_replication_factor,
        )
        self.topology = zookeeper.topology(self)
        self.write_markers = MarkerSender(self)
        self.coordinators: ClusterCoordinators = ClusterCoordinators(self)
        self._connect_parts()

    def _connect_parts(self) -> None:
        member, roles = self.member, self.roles
        member.on_cluster_id = self._take_cluster_id
        member.on_secret = lambda secret: self.proof.take(secret, self.cluster.cluster_id.encode())
        member.on_settings = self.settings.take_all
        member.on_changed_settings = self.settings.changed
        member.on_expired_session = roles.suspend
        member.on_failed = self._cannot_be_member
        self.logs.on_offline = self._directory_failed
        self.logs.goes_offline_when_full = True
        roles.on_leader = self.coordinators.leads
        roles.on_follower = lambda partition: self.coordinators.lost(partition.name)
        roles.on_stopped = self.coordinators.lost

    def _make_fetchers(self, peers: Peers, loop: Loop) -> Fetchers:
        return Fetchers(
            fetcher_settings(self.node_id, self.config, self.versions),
            peers,
            loop,
            self.clock,
            lambda: self.cluster.brokers,
            lambda: self.member.broker_epoch,
            self._replicated,
            self._replica_failed,
            self.replication_quotas.follower,
            self.config.num_replica_fetchers,
        )

    def _isr_changer(self) -> IsrChanger:
        if self.versions.has_alter_partition:
            return AlterPartitionProposals(self.cluster, self.link, self.versions, lambda: self.member.broker_epoch)
        return ZnodeProposals(self.cluster, self.member.run, self.loop, lambda: self.roles.controller_epoch)

    def _join(self) -> None:
        """Be registered before anything is served."""
        self.member.start()
        timeout_ms = self.config.zookeeper_connection_timeout_ms or self.config.zookeeper_session_timeout_ms
        # A znode of our last session may have to run out first.
        until = self.loop.monotonic() + (timeout_ms + 2 * self.config.zookeeper_session_timeout_ms) / 1000
        self.server.loop.run_until(lambda: self.member.is_registered or self.member.failure is not None, until)
        if self.member.failure is not None:
            raise self.member.failure
        if not self.member.is_registered:
            raise BrokerUnavailable(f"ZooKeeper at {self.config.zookeeper_connect} does not answer; zookeeper.connect names it")
        self.begin()

    def _settle(self) -> None:
        """Hear from the controller who is alive, if there is one: clients that are told of no brokers at all may not ask again soon."""
        self.server.loop.run_until(lambda: self.node_id in self.cluster.brokers, self.loop.monotonic() + SETTLE_SECONDS)

    def begin(self) -> None:
        """What goes on by the clock."""
        self.fence.start()
        self._check_lag()

    def _check_lag(self) -> None:
        self.roles.check_lag()
        self.loop.later(self.config.replica_lag_time_max_ms / 2000, self._check_lag)

    def _take_cluster_id(self, cluster_id: str) -> None:
        self.cluster.cluster_id = cluster_id
        for directory in self.logs.directories:
            directory.ensure_identity(cluster_id, self.node_id)
            meta = directory.read_meta()
            if meta is None or meta.cluster_id is None:
                directory.write_meta(MetaProperties(0, cluster_id, self.node_id, None if meta is None else meta.directory_id))

    # What the controller told.

    @property
    def controller(self) -> Controller | None:
        """While this broker is it, and knows what there is."""
        controller = self.member.controller if self.member.is_controller else None
        return controller if controller is not None and controller.is_ready else None

    def take_metadata(self, request: UpdateMetadataRequest) -> None:
        """An UpdateMetadata that is not old."""
        before = self.cluster.brokers
        deleted = self.cluster.update(request)
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
        """The controller is told; it asks what is lost with the directory, and has others lead it."""
        logger.error("data directory %s failed: the controller is told", path)

        def note() -> Steps[None]:
            yield [Create(LOG_DIR_EVENT, log_dir_event(self.node_id), sequence=True)]

        self.loop.post(lambda: self.member.run(note()))

    def _replica_failed(self, name: TopicPartition, error: MilepostError) -> None:
        logger.error("%s is followed no more: %s", name, error)

    def replication_facts(self) -> AmongOthers:
        from milepost.broker.telemetry.replication_facts import AmongOthers  # when somebody asks for metrics

        return AmongOthers(self)

    def answer_follower(self, request: FetchRequest, context: Context) -> FetchResponse | None:
        if not context.speaks_for(replica_id_of(request)):
            return refuse_follower(request, context.version)
        response = follower.answer(request, context, self)
        repeated.remember(request, context, self)
        return response

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        return nearest_replica(partition, rack, offset, self.node_id, self.cluster.brokers)

    def missing_partition(self, name: TopicPartition) -> int:
        known = self.cluster.has_partition(name.topic, name.partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def admit(
        self,
        admission: Admission,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        answer: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        topic = self.transactions_topic
        known = self.cluster.partition_info(topic.name, partition_of(transactional_id, topic.partition_count))
        if known is not None and known.leader == self.node_id:
            super().admit(admission, transactional_id, producer, partitions, answer)
        else:
            coordinator = None if known is None else self.cluster.brokers.get(known.leader)
            ask_coordinator(self.peers, coordinator, admission, transactional_id, producer, partitions, answer)

    # Stopping.

    def stop(self) -> None:
        """Hand over what is led, if there is somebody to take it, then end."""
        if self.config.controlled_shutdown_enable:
            self.loop.post(lambda: self.leaving.leave(self.server.loop.stop, self.config))
        else:
            super().stop()

    def close(self) -> None:
        self.link.close()
        self.fetchers.close()
        self.fence.stop()
        super().close()
        self.member.close()
