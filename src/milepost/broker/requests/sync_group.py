"""SyncGroup (key 14): the leader brings the assignments of the new generation, and every member gets its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import SyncGroupRequest

if TYPE_CHECKING:
    from milepost.broker.context import Context


def handle(request: SyncGroupRequest, context: Context) -> None:
    context.broker.groups.sync(request, context.version, context.answer)
