"""WriteTxnMarkers (key 27) in a cluster: another broker's coordinator ends transactions in partitions that this one leads.

Answered when all in-sync replicas have the markers. A partition that is led elsewhere is 6, and the coordinator looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.apis import write_txn_markers
from milepost.protocol.messages import WriteTxnMarkersRequest

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.coordinator.interfaces import Work

KEY = 27


def handle(request: WriteTxnMarkersRequest, context: Context) -> Work[None]:
    return write_txn_markers.handle(request, context)
