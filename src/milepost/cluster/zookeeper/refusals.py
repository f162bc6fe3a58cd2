"""What ZooKeeper refuses for a reason that no logic is about: an ACL, a quota, a request it cannot read.

NO_NODE, NODE_EXISTS, BAD_VERSION and NOT_EMPTY are answers, a lost connection and an expired session come and go (`EXPECTED`). Any other
error would be the same for a second try. Kafka makes none either: its controller logs the error, gives up what it was doing at that
event, and goes on with the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from milepost.cluster.zookeeper.operations import Create, Delete, Error, Multi, Operation, Result
from milepost.errors import MilepostError

logger = logging.getLogger("milepost.cluster")

EXPECTED = frozenset(
    {
        Error.OK,
        Error.RUNTIME_INCONSISTENCY,
        Error.CONNECTION_LOSS,
        Error.NO_NODE,
        Error.BAD_VERSION,
        Error.NODE_EXISTS,
        Error.NOT_EMPTY,
        Error.SESSION_EXPIRED,
    }
)


class RefusedByZooKeeper(MilepostError):
    exit_code = 4


def refusal(operation: Operation, result: Result) -> RefusedByZooKeeper | None:
    """What to raise over this result, if it is a refusal."""
    if result.error in EXPECTED:
        return None
    if isinstance(operation, Multi):
        parts = zip(operation.operations, result.results, strict=False)
        operation = next((each for each, part in parts if part.error is result.error), operation.operations[-1])
    path = operation.path
    # Who may create and delete a node is in the ACL of the one above.
    guard = path.rpartition("/")[0] or "/" if isinstance(operation, (Create, Delete)) else path
    advice = f"its ACL must allow that to world:anyone (setAcl {guard})" if result.error is Error.NO_AUTH else "see its log"
    return RefusedByZooKeeper(
        f"ZooKeeper refused {type(operation).__name__} {path}: {result.error.name} ({result.error.value}), {advice}"
    )


def first_refusal(operations: Sequence[Operation], results: Sequence[Result]) -> RefusedByZooKeeper | None:
    found = (refusal(operation, result) for operation, result in zip(operations, results, strict=True))
    return next((each for each in found if each is not None), None)


def log_refusals(consequence: str, operations: Sequence[Operation], results: Sequence[Result]) -> None:
    """For steps that go on without what was refused."""
    for operation, result in zip(operations, results, strict=True):
        refused = refusal(operation, result)
        if refused is not None:
            logger.error("%s: %s", consequence, refused)
