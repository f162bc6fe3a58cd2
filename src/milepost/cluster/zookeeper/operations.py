"""What can be asked of ZooKeeper, and what it answers: plain values, so that the logic above is the same over a real server and a model.

An operation that fails is a result too, with its error: most failures are what the logic is about (another broker was first).

    Get Exists Children     read; with `watch` the session notifies once when that changes
    Sync                    the server that is asked has heard of everything that was written before: what is read next is not old
    Create SetData Delete   write; a version of -1 matches any
    Check                   the version that guards the others of its Multi
    Multi                   all or nothing
"""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeAlias

ANY_VERSION = -1


class Error(enum.IntEnum):
    """ZooKeeper's own numbers. What one of them means for the logic above: `refusals`."""

    OK = 0
    SYSTEM_ERROR = -1  # also what has no number here
    RUNTIME_INCONSISTENCY = -2  # of another operation in the same Multi
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4  # it may or may not have happened
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    REQUEST_TIMEOUT = -122
    QUOTA_EXCEEDED = -125
    THROTTLED_OPERATION = -127


class Get(NamedTuple):
    path: str
    watch: bool = False


class Exists(NamedTuple):
    path: str
    watch: bool = False


class Children(NamedTuple):
    path: str
    watch: bool = False


class Sync(NamedTuple):
    path: str


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequence: bool = False


class SetData(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    path: str
    version: int


class Multi(NamedTuple):
    operations: tuple[Create | SetData | Delete | Check, ...]


Operation: TypeAlias = "Get | Exists | Children | Sync | Create | SetData | Delete | Check | Multi"


class Stat(NamedTuple):
    version: int
    czxid: int
    ephemeral_owner: int = 0
    created_ms: int = 0
    """By ZooKeeper's clock."""


class Result(NamedTuple):
    """`path` is the name that a Create made. A Multi has one result per operation in `results`."""

    error: Error = Error.OK
    data: bytes = b""
    stat: Stat | None = None
    children: tuple[str, ...] = ()
    path: str = ""
    results: tuple[Result, ...] = ()

    @property
    def ok(self) -> bool:
        return self.error is Error.OK

    @property
    def version(self) -> int:
        assert self.stat is not None, f"a result without a stat: {self}"
        return self.stat.version


class EventType(enum.Enum):
    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    type: EventType
    path: str
