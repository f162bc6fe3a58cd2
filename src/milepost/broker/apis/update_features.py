"""UpdateFeatures (key 57): set the level of features. Levels are fixed here (`features`), so only the level a feature has already
can be asked for.

One feature that cannot be set refuses them all (95). Up to version 1 a request that is fine is answered for each feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.features import FEATURES
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

KEY = 57


def handle(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    for update in request.feature_updates:
        fault = fault_of(update)
        if fault is not None:
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=fault)
    results = [
        UpdateFeaturesResponse.Result(feature=update.feature, error_message=None)
        for update in request.feature_updates
        if context.version <= 1
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def fault_of(update: UpdateFeaturesRequest.FeatureUpdate) -> str | None:
    feature = FEATURES.get(update.feature)
    if feature is None:
        return f"no feature has been changed: there is no feature {update.feature[:60]!r} here"
    if update.max_version_level != feature.level:
        return (
            f"no feature has been changed: {feature.name} is at level {feature.level} and cannot go to {update.max_version_level}"
        )
    return None
