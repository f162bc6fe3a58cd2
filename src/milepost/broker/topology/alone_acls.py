"""ACLs of a broker that is alone: written down beside its logs, a change for each, and in force when that is durable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from milepost.broker.topology.protocols import AclFailures
from milepost.security.acls import AclBinding, row_of

if TYPE_CHECKING:
    from milepost.broker.slices import Work
    from milepost.broker.topology.alone_topics import AloneTopics
    from milepost.security.acl_index import AclIndex


class AloneAcls:
    def __init__(self, index: AclIndex, topics: AloneTopics):
        self.index = index
        self._changes = topics

    def fault_of(self, binding: AclBinding) -> str | None:
        """All rules can be written down."""
        return None

    def adding(self, bindings: Sequence[AclBinding]) -> Work[AclFailures]:
        return self._saving([each for each in bindings if each not in self.index], is_there=True)

    def removing(self, bindings: Sequence[AclBinding]) -> Work[AclFailures]:
        return self._saving([each for each in bindings if each in self.index], is_there=False)

    def _saving(self, bindings: Sequence[AclBinding], *, is_there: bool) -> Work[AclFailures]:
        changes = {str(place): {"acl": row_of(each), "is": is_there} for place, each in enumerate(bindings)}
        failures = yield from self._changes.saving(changes)
        return {bindings[int(place)]: failure for place, failure in failures.items()}
