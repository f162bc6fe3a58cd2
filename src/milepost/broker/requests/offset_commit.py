"""OffsetCommit (key 8): how far a group has read. Answered when the log has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import OffsetCommitRequest

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work


def handle(request: OffsetCommitRequest, context: Context) -> Work[None]:
    yield from context.broker.groups.commit_offsets(request, context.version, context.answer)
