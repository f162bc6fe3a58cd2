"""One rule of who may do what: Kafka's AclBinding, and the numbers and names of its parts.

    resource    a type, a name, and how the name is meant: LITERAL is this name (`*` is every name), PREFIXED all that begin with it
    principal   `User:alice`; `User:*` is everybody
    host        an address, or `*`
    operation   ALL, or one; READ, WRITE, DELETE and ALTER that are allowed allow DESCRIBE, ALTER_CONFIGS allows DESCRIBE_CONFIGS
    permission  ALLOW or DENY; a DENY that matches beats every ALLOW, and implies nothing

The numbers are those of the wire, the titles (`TransactionalId`) those of Kafka's znodes and tools. UNKNOWN (0), ANY (1) and MATCH (2, of
patterns) stand in filters only (`acl_filter`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

from milepost.errors import InvalidRequest

WILDCARD = "*"
EVERYBODY = "User:*"
CLUSTER_NAME = "kafka-cluster"
MOST_NAME = 1000
"""Characters of a resource's name, of a principal, of a host."""
SHOWN = 60


class Titled(IntEnum):
    # That of an enum is a function of Python's, and rules are looked up by these.
    __hash__ = int.__hash__

    @property
    def kafka_name(self) -> str:
        """`TransactionalId`, as in Kafka's znodes."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class ResourceType(Titled):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Titled):
    LITERAL = 3
    PREFIXED = 4


class Operation(Titled):
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(Titled):
    DENY = 2
    ALLOW = 3


IMPLYING: dict[Operation, frozenset[Operation]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
"""Operations that, when they are allowed, allow another one."""


class ResourcePattern(NamedTuple):
    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        """As Kafka's tools write it, `Topic:LITERAL:visits`."""
        return f"{self.resource_type.kafka_name}:{self.pattern_type.name}:{self.name}"


class AclBinding(NamedTuple):
    pattern: ResourcePattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def covers(self, operation: Operation) -> bool:
        """Whether it speaks of an operation; one of ALLOW also of those that are implied."""
        if self.operation is operation or self.operation is Operation.ALL:
            return True
        return self.permission is Permission.ALLOW and self.operation in IMPLYING.get(operation, ())

    def __str__(self) -> str:
        return (
            f"{self.permission.name} {self.operation.name} on {self.pattern} to {self.principal}"
            f"{'' if self.host == WILDCARD else f' from {self.host}'}"
        )


Row = tuple[int, str, int, str, str, int, int]


def row_of(binding: AclBinding) -> Row:
    """Numbers and texts alone: resource type, name, pattern type, principal, host, operation, permission."""
    kind, name, pattern_type = binding.pattern
    return int(kind), name, int(pattern_type), binding.principal, binding.host, int(binding.operation), int(binding.permission)


def from_row(row: Row) -> AclBinding:
    """InvalidRequest for numbers that stand for nothing, and names that no rule may have."""
    kind, name, pattern_type, principal, host, operation, permission = row
    pattern = ResourcePattern(
        numbered(ResourceType, kind, "resource type"), name, numbered(PatternType, pattern_type, "pattern type")
    )
    return ensure_valid(
        AclBinding(
            pattern, principal, host, numbered(Operation, operation, "operation"), numbered(Permission, permission, "permission")
        )
    )


E = TypeVar("E", bound=Titled)


def titled(kind: type[E], title: str) -> E:
    """`TransactionalId`, in any case, also `TRANSACTIONAL_ID` and `transactional-id`."""
    wanted = title.replace("_", "").replace("-", "").lower()
    for each in kind:
        if each.kafka_name.lower() == wanted:
            return each
    raise InvalidRequest(f"{title[:SHOWN]!r} is none of {', '.join(each.kafka_name for each in kind)}")


def numbered(kind: type[E], number: int, what: str) -> E:
    try:
        return kind(number)
    except ValueError:
        raise InvalidRequest(
            f"{number} is no {what} of a rule: give one of {', '.join(f'{each} ({each.name})' for each in kind)}"
        ) from None


def ensure_valid(binding: AclBinding) -> AclBinding:
    """What Kafka refuses in a new rule; and what is longer than any name."""
    name = binding.pattern.name
    for what, text in (("resource name", name), ("principal", binding.principal), ("host", binding.host)):
        if not text:
            raise InvalidRequest(f"the {what} of a rule is empty")
        if len(text) > MOST_NAME:
            raise InvalidRequest(f"the {what} of a rule has {len(text)} characters, more than {MOST_NAME}")
    if binding.pattern.resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise InvalidRequest(f"the only name of a resource of type CLUSTER is {CLUSTER_NAME}, not {name[:SHOWN]!r}")
    kind, colon, who = binding.principal.partition(":")
    if not (kind and colon and who):
        raise InvalidRequest(f"{binding.principal[:SHOWN]!r} is no principal: give TYPE:NAME, such as User:alice")
    return binding
