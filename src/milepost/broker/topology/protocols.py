"""What a request handler asks of the cluster that its broker belongs to, whatever kind of cluster that is.

    view           who is alive, who is controller, who leads what
    peers          which connections are other brokers'
    producer_ids   ids that no other producer has
    followers      fetches of other brokers, who follow what is led here
    coordinators   where the coordinator of a group or of a transaction is, and what it says of a transaction
    features       levels of features, moved
    configs        settings of topics, brokers and groups, stored
    quotas         quotas of clients, stored
    topics         topics made, grown and deleted, their leaders elected, their partitions moved
    acls           who may do what, stored; None where no authorizer would obey them

`alone` (also for attached directories) and `zookeeper` implement them. What may take time is a `Work` (`slices`):
alone it goes through at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from milepost.broker.fetch.interfaces import FetchContext
from milepost.errors import MilepostError
from milepost.frozen_dataclass import frozen_dataclass
from milepost.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from milepost.broker.configs.client_quotas import Entity
    from milepost.broker.configs.config_resources import Settings
    from milepost.broker.slices import Work
    from milepost.broker.telemetry.replication_metrics import ReplicationFacts
    from milepost.cluster.view import TopicState
    from milepost.config.topic import LogConfig
    from milepost.coordinator.transactions.transaction import Producer
    from milepost.coordinator.transactions.transaction_admission import Admission
    from milepost.net.channel import Channel
    from milepost.protocol.messages import FetchRequest, FetchResponse
    from milepost.replica.partition import Partition
    from milepost.security.acl_index import AclIndex
    from milepost.security.acls import AclBinding
    from milepost.security.scram import ScramCredential
    from milepost.topic_partition import TopicPartition

T = TypeVar("T")

NO_LEADER = -1
HERE = -1
"""In the place of a replica that is nearer to a client."""
DEFAULT = -1
"""The replication factor of a request that leaves it to the broker."""

Replicas = Mapping[int, tuple[int, ...]]
"""Brokers by the number of a partition."""
Failures = dict[str, MilepostError]
"""By the name of what could not be done."""
AclFailures: TypeAlias = "dict[AclBinding, MilepostError]"
Outcome = tuple[int, str | None]
"""An error code, or 0, and a sentence."""


class Node(NamedTuple):
    """A broker that is alive, and where clients of a listener reach it."""

    broker_id: int
    host: str
    port: int
    rack: str | None


class PartitionState(NamedTuple):
    """A partition as Metadata responses show it."""

    error_code: int = ErrorCode.NONE
    leader_id: int = NO_LEADER
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()


class Coordinator(NamedTuple):
    """Where the coordinator of a group or of a transaction is, or why there is none."""

    error_code: int
    message: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1


class Reassignment(NamedTuple):
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@frozen_dataclass
class NewTopic:
    name: str
    replicas: Replicas
    configs: Mapping[str, str]
    settings: LogConfig


class Growth(NamedTuple):
    """More partitions for a topic; `replicas` of the new ones, if they are assigned by hand."""

    new: range
    replicas: Replicas | None


class View(Protocol):
    @property
    def is_controller(self) -> bool: ...
    @property
    def controller_id(self) -> int:
        """The controller in Metadata responses: a broker that is alive, or -1."""

    def brokers(self, listener: str) -> list[Node]: ...
    def hearing(self) -> Work[None]:
        """Wait for a moment, where this broker has not yet heard who is there."""

    def partition(self, topic: TopicState, number: int, listener: str) -> PartitionState | None:
        """None where nothing is known of it."""

    def missing_partition(self, name: TopicPartition) -> int:
        """What to answer about a partition that is not on this broker."""

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> int:
        """A replica that a client in a rack should read from instead; HERE where this one is as good as any."""

    def replication_metrics(self) -> ReplicationFacts:
        """What metrics say of replicas and of the controller."""


class BrokersFetch(FetchContext, Protocol):
    def speaks_for(self, broker_id: int) -> bool:
        """Whether this very broker asks."""


class Followers(Protocol):
    def answer(self, request: FetchRequest, context: BrokersFetch) -> FetchResponse | None: ...


class Peers(Protocol):
    def is_broker(self, channel: Channel) -> bool:
        """Whether a connection is another broker's, who may say what only brokers do (`inter_broker`)."""


class ProducerIds(Protocol):
    def when_available(self, ready: Callable[[], object]) -> None:
        """Go on when there are producer ids to give away."""

    def take(self) -> int:
        """A unique one."""


class Coordinators(Protocol):
    def find(self, key_type: int, key: str, listener: str) -> Coordinator:
        """Of a group (0) or of a transaction (1)."""

    def admit(
        self,
        admission: Admission,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        answer: Callable[[dict[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Ask the coordinator of a transaction whether partitions are part of it, or make them so."""


class Features(Protocol):
    def ensure_movable(self) -> None:
        """That levels of features can be moved here at all."""

    def move(self, levels: Mapping[str, int]) -> None:
        """To levels that `features.fault_of` has nothing against; from now on, and after a restart."""


class ConfigChanges(Protocol):
    """What a request changes, resource by resource."""

    def ensure_stored(self, settings: Settings) -> None:
        """That settings of this kind are kept here."""

    def add(self, settings: Settings, given: dict[str, str], failed: Callable[[MilepostError], object]) -> None:
        """`given`, which is valid, in the place of all that is stored."""

    def making(self) -> Work[None]:
        """Until all that was added is in force, or `failed`."""


class Configs(Protocol):
    def refreshing(self, resources: Sequence[Any]) -> Work[bool]:
        """Read what is stored for resources that a request names: another broker may have changed it. False where that fails."""

    def changes(self) -> ConfigChanges: ...


class Quotas(Protocol):
    def refreshing(self) -> Work[None]:
        """Read what is stored: another broker may have changed it a moment ago."""

    def altering(self, wanted: Mapping[str, tuple[Entity, dict[str, float | None]]]) -> Work[Failures]:
        """Set quotas of entities, or take them away (None)."""


class ScramUsers(Protocol):
    def refreshing(self) -> Work[None]:
        """Read what is stored: another broker may have changed it a moment ago."""

    def altering(self, wanted: Mapping[str, Mapping[str, ScramCredential | None]]) -> Work[Failures]:
        """Set what proves the passwords of users, by mechanism, or take it away (None)."""


class Acls(Protocol):
    @property
    def index(self) -> AclIndex:
        """Those that are in force."""

    def fault_of(self, binding: AclBinding) -> str | None:
        """Why a rule cannot be stored here."""

    # In force when it is over. The answer has those for which it did not work.

    def adding(self, bindings: Sequence[AclBinding]) -> Work[AclFailures]: ...
    def removing(self, bindings: Sequence[AclBinding]) -> Work[AclFailures]: ...


class Topics(Protocol):
    @property
    def refusal(self) -> int:
        """NOT_CONTROLLER where another broker administers the topics of the cluster."""

    def in_turn(self, work: Work[T]) -> Work[T]:
        """One request at a time, where what they change is decided here."""

    def assign(self, partitions: int, factor: int) -> Replicas:
        """Replicas for a new topic; `factor` may be DEFAULT."""

    def ensure_assignable(self, partition: int, broker_ids: Sequence[int]) -> None:
        """That a partition can be assigned to these by hand."""

    # In turn. The answer has those for which it did not work; after `seconds` some are not done yet: REQUEST_TIMED_OUT.

    def creating(self, wanted: Sequence[NewTopic], seconds: float) -> Work[Failures]: ...
    def creating_on_first_use(self, names: Sequence[str]) -> Work[Failures]:
        """Topics with default settings, internal ones as their coordinators need them. LEADER_NOT_AVAILABLE where it takes time."""

    def growing(self, wanted: Mapping[str, Growth], seconds: float) -> Work[Failures]: ...
    def deleting(self, names: Sequence[str], seconds: float) -> Work[Failures]: ...

    # Partitions.

    def electing(self, named: Sequence[TopicPartition] | None, is_unclean: bool) -> Work[dict[TopicPartition, Outcome]]:
        """Without names: of all partitions, those that need an election."""

    def reassignments(self) -> Mapping[TopicPartition, Reassignment]:
        """Of partitions that are being moved."""

    def reassigning(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], may_change_factor: bool
    ) -> Work[dict[TopicPartition, Outcome]]:
        """Begin to move partitions, or (None) stop moving them."""


class Topology(NamedTuple):
    view: View
    peers: Peers
    followers: Followers
    producer_ids: ProducerIds
    coordinators: Coordinators
    features: Features
    configs: Configs
    quotas: Quotas
    scram_users: ScramUsers
    topics: Topics
    acls: Acls | None
