"""Who may do what: an authorizer is asked once for each resource that a request names (`guards` says which those are).

There is no setting for one yet: a broker that is alone or in a cluster lets everybody do everything, an attached one denies what writes. A
denial is Kafka's error of the resource: 29 for a topic, 30 for a group, 31 for the cluster, 53 for a transactional id.

An authorizer that never denies is not asked, so that it costs nothing, and only there produce requests take the fast path
(`produce/frames`). Of fetches a connection knows what it was allowed to read, in one generation of the rules.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from milepost.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from milepost.security.principal import KafkaPrincipal


class Operation(IntEnum):
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    CLUSTER_ACTION = 9
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME = "kafka-cluster"
ERRORS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Access(NamedTuple):
    """An operation on a resource."""

    operation: Operation
    resource_type: ResourceType
    name: str = CLUSTER_NAME


class Denial(NamedTuple):
    code: int
    why: str


class Requester(Protocol):
    """Of one request: who asks, and from where (`/127.0.0.1`)."""

    @property
    def principal(self) -> KafkaPrincipal: ...
    @property
    def client_host(self) -> str: ...


class Authorizer(Protocol):
    @property
    def allows_everything(self) -> bool:
        """Always, for every client: it need not be asked."""

    @property
    def generation(self) -> int:
        """Another one whenever somebody may be allowed more, or less, than before."""

    def denies(self, access: Access, requester: Requester) -> str | None:
        """Why not, in a sentence; None where it is allowed."""


class AllowEverybody:
    allows_everything = True
    generation = 0

    def denies(self, access: Access, requester: Requester) -> str | None:
        return None


class ReadOnly:
    """Of attached directories: clients may only read. Groups are kept in memory, so their members are not writers."""

    allows_everything = False
    generation = 0
    why = "the directories are attached for reading: nothing can be written to this broker"

    def denies(self, access: Access, requester: Requester) -> str | None:
        return None if access.operation is Operation.READ else self.why


EVERYBODY = AllowEverybody()


def denial_of(access: Access, requester: Requester, authorizer: Authorizer) -> Denial | None:
    why = authorizer.denies(access, requester)
    return None if why is None else Denial(ERRORS[access.resource_type], why)
