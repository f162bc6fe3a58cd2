"""WriteTxnMarkers (key 27) in a cluster: another broker's coordinator ends transactions in partitions that this one leads.

Answered when all in-sync replicas have the markers. A partition that is led elsewhere is 6, and the coordinator looks again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.apis.write_txn_markers import MarkerAnswer, answer_of, fault_of
from milepost.broker.gathering import Gathering
from milepost.broker.transaction_markers import MarkerWriter
from milepost.log.partition_name import TopicPartition
from milepost.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 27


def handle(request: WriteTxnMarkersRequest, context: Context) -> None:
    answers = Gathering[MarkerAnswer](len(request.markers), lambda parts: context.answer(WriteTxnMarkersResponse(markers=parts)))
    for place, marker in enumerate(request.markers):
        names = {TopicPartition(topic.name, index): None for topic in marker.topics for index in topic.partition_indexes}
        errors = {name: error for name in names if (error := fault_of(marker, name, context))}

        def written(
            codes: dict[TopicPartition, int],
            place: int = place,
            marker: WriteTxnMarkersRequest.Marker = marker,
            errors: dict[TopicPartition, int] = errors,
        ) -> None:
            answers.put(place, answer_of(marker, errors | codes))

        MarkerWriter(context.broker)(
            [name for name in names if name not in errors],
            marker.producer_id,
            marker.producer_epoch,
            marker.transaction_result,
            marker.coordinator_epoch,
            written,
        )
