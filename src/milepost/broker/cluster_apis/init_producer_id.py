"""InitProducerId (key 22) in a cluster: as ever, as soon as this broker has producer ids to give away."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis import init_producer_id
from milepost.protocol.messages import InitProducerIdRequest

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

KEY = 22


def handle(request: InitProducerIdRequest, context: Context) -> None:
    def ready() -> None:
        response = init_producer_id.handle(request, context)
        if response is not None:
            context.answer(response)

    cast("ClusterParts", context.broker).producer_ids.when_available(ready)
