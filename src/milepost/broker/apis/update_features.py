"""UpdateFeatures (key 57): move features to other levels (see `features`), all of them or none.

One feature that cannot be moved refuses them all (95). Up to version 1 a request that is fine is answered for each feature. In version
0 there is no upgrade type: a level can only go up (as in Kafka, which does not look at `allow_downgrade` any more).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from milepost.broker.features import TRANSACTION_VERSION, fault_of, level_of
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts

KEY = 57


def handle(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    cluster = context.broker.cluster
    for asked in request.feature_updates:
        fault = fault_of(cluster, asked.feature, asked.max_version_level, asked.upgrade_type)
        if fault is not None:
            message = f"no feature has been changed: {fault}"
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message)
    if not request.validate_only:
        try:
            update(context.broker, {asked.feature: asked.max_version_level for asked in request.feature_updates})
        except MilepostError as error:
            return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
    results = [
        UpdateFeaturesResponse.Result(feature=asked.feature, error_message=None)
        for asked in request.feature_updates
        if context.version <= 1
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def update(broker: Parts, levels: Mapping[str, int]) -> None:
    """Move features to levels that `fault_of` has nothing against; from now on, and after a restart."""
    changed = {name: level for name, level in levels.items() if level != level_of(broker.cluster, name)}
    if changed:
        broker.solo.update_features(changed)
        broker.transactions.use_transaction_version(level_of(broker.cluster, TRANSACTION_VERSION))
