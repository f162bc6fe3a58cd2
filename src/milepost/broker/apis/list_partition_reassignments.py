"""ListPartitionReassignments (key 46): partitions whose replicas are being moved. With one broker there is nowhere to go: none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.messages import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 46


def handle(request: ListPartitionReassignmentsRequest, context: Context) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
