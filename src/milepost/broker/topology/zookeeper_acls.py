"""ACLs of a cluster: stored in ZooKeeper, every broker is notified. Any broker may change them.

What cannot be read when the broker starts ends the start; later, what was read last stays in force.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.slices import gathered
from milepost.cluster.zookeeper import acl_nodes
from milepost.errors import BrokerUnavailable, InvalidConfiguration
from milepost.security.acl_index import AclIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.broker.acl_authorizer import AclAuthorizer
    from milepost.broker.slices import Work
    from milepost.broker.topology.protocols import AclFailures
    from milepost.cluster.member import ClusterMember
    from milepost.security.acls import AclBinding, ResourcePattern

logger = logging.getLogger("milepost.authorizer")


class ZooKeeperAcls:
    def __init__(self, member: ClusterMember, authorizer: AclAuthorizer):
        self._member = member
        self._authorizer = authorizer

    @property
    def index(self) -> AclIndex:
        return AclIndex() if self._authorizer.acls is None else self._authorizer.acls

    # What is read.

    def take_all(self, found: acl_nodes.Found) -> None:
        unreadable = [acl_nodes.path_of(pattern) for pattern, bindings in found.items() if bindings is None]
        if unreadable and self._authorizer.acls is None:
            raise InvalidConfiguration(
                f"{unreadable[0]} holds ACLs that cannot be read ({len(unreadable)} such znodes): correct it, or delete it to have no "
                "rules of this resource"
            )
        index = self.index
        for gone in set(index.patterns()) - found.keys():
            index.replace(gone, [])
        self.take(found, index)
        self._authorizer.acls = index

    def take(self, found: acl_nodes.Found, index: AclIndex | None = None) -> None:
        for pattern, bindings in found.items():
            if bindings is None:
                logger.error("%s cannot be read: the ACLs that it had stay in force", acl_nodes.path_of(pattern))
            else:
                (self.index if index is None else index).replace(pattern, bindings)

    # What a client changes.

    def fault_of(self, binding: AclBinding) -> str | None:
        return acl_nodes.fault_of(binding)

    def adding(self, bindings: Sequence[AclBinding]) -> Work[AclFailures]:
        return self._writing(bindings, is_there=True)

    def removing(self, bindings: Sequence[AclBinding]) -> Work[AclFailures]:
        return self._writing(bindings, is_there=False)

    def _writing(self, bindings: Sequence[AclBinding], *, is_there: bool) -> Work[AclFailures]:
        by_pattern: dict[ResourcePattern, list[AclBinding]] = {}
        for each in bindings:
            by_pattern.setdefault(each.pattern, []).append(each)
        outcomes = yield from gathered([partial(self._write, pattern, named, is_there) for pattern, named in by_pattern.items()])
        failure = BrokerUnavailable("ZooKeeper did not confirm the change, which may be stored all the same; send it again")
        return {
            each: failure
            for named, is_written in zip(by_pattern.values(), outcomes, strict=True)
            if not is_written
            for each in named
        }

    def _write(self, pattern: ResourcePattern, named: Sequence[AclBinding], is_there: bool, done: Callable[[bool], None]) -> None:
        def written(now: list[AclBinding] | None) -> None:
            if now is not None:
                self.index.replace(pattern, now)
            done(now is not None)

        steps = acl_nodes.write(pattern, named if is_there else (), () if is_there else named)
        self._member.run(steps, written, lambda: done(False))
