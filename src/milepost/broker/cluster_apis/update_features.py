"""UpdateFeatures (key 57) in a cluster: the levels are those of Kafka with ZooKeeper, and nobody moves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 57


def handle(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_code=ErrorCode.INVALID_UPDATE_VERSION,
        error_message="the levels of features are fixed in a cluster with ZooKeeper",
    )
