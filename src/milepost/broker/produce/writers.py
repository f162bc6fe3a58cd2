"""Fast paths of clients that might be denied something: one for all connections of a principal from an address.

A path is shared because it is large, and because what it remembers of topics is the same for all of them. Rights are not remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.authorizer import Access, Authorizer
from milepost.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.net.fast_path import FastPath
    from milepost.security.principal import KafkaPrincipal

MOST_WRITERS = 100


class Writer(NamedTuple):
    principal: KafkaPrincipal
    client_host: str
    authorizer: Authorizer

    def may_write(self, topic: str) -> bool:
        """A denial is said and logged by the general path, which such a request takes."""
        return self.authorizer.denies(Access(Operation.WRITE, ResourceType.TOPIC, topic), self) is None


class Writers:
    def __init__(self, authorizer: Authorizer, make_path: Callable[[Writer], FastPath]):
        self._authorizer = authorizer
        self._make_path = make_path
        self._paths: dict[Writer, FastPath] = {}

    def path_of(self, principal: KafkaPrincipal, client_host: str) -> FastPath:
        writer = Writer(principal, client_host, self._authorizer)
        path = self._paths.get(writer)
        if path is None:
            if len(self._paths) >= MOST_WRITERS:
                self._paths.clear()
            path = self._paths[writer] = self._make_path(writer)
        return path
