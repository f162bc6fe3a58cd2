"""Who may do what: an authorizer is asked once for each resource that a request names (`rights/table` says which those are).

Without `authorizer.class.name` everybody may do everything, with it the ACLs decide (`acl_authorizer`); a broker over attached directories
denies what writes, whatever they say. A denial is Kafka's error of the resource: 29 for a topic, 30 for a group, 31 for the cluster, 53 for
a transactional id.

An authorizer that never denies is not asked, so that it costs nothing. Others are asked by the fast path of produce requests in each pass
(`produce/writers`); of fetches a connection knows what it was allowed to read, in one generation of the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from milepost.protocol.error_codes import ErrorCode
from milepost.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from milepost.security.principal import KafkaPrincipal


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
    is_any: bool = False
    """On some resource of the type, whatever its name."""


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

    def note_denial(self, access: Access, requester: Requester) -> None:
        """Of what was asked for by name, and is answered with an error."""


class AllowEverybody:
    allows_everything = True
    generation = 0

    def denies(self, access: Access, requester: Requester) -> str | None:
        return None

    def note_denial(self, access: Access, requester: Requester) -> None:
        """There is none."""


READING = frozenset((Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS))


class ReadOnly:
    """Of attached directories: clients may only read. Groups are kept in memory, so their members are not writers."""

    allows_everything = False
    generation = 0
    why = "the directories are attached for reading: nothing can be written to this broker"

    def denies(self, access: Access, requester: Requester) -> str | None:
        is_harmless = access.operation in READING or access.resource_type is ResourceType.GROUP
        return None if is_harmless else self.why

    def note_denial(self, access: Access, requester: Requester) -> None:
        """Everybody is denied the same: that says nothing of who asks."""


class BothAgree:
    """What one of two denies is denied."""

    allows_everything = False

    def __init__(self, first: Authorizer, second: Authorizer):
        self._both = first, second

    @property
    def generation(self) -> int:
        return sum(each.generation for each in self._both)

    def denies(self, access: Access, requester: Requester) -> str | None:
        return next((why for each in self._both if (why := each.denies(access, requester)) is not None), None)

    def note_denial(self, access: Access, requester: Requester) -> None:
        for each in self._both:
            each.note_denial(access, requester)


EVERYBODY = AllowEverybody()


def together(first: Authorizer | None, second: Authorizer | None) -> Authorizer:
    """Both are asked, where there are two."""
    if first is None or second is None:
        return first or second or EVERYBODY
    return BothAgree(first, second)


def denial_of(access: Access, requester: Requester, authorizer: Authorizer) -> Denial | None:
    why = authorizer.denies(access, requester)
    if why is None:
        return None
    authorizer.note_denial(access, requester)
    return Denial(ERRORS[access.resource_type], why)
