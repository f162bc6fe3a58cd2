"""UpdateFeatures (key 57): move features to other levels (see `features`), all of them or none.

One feature that cannot be moved refuses them all (95). Up to version 1 a request that is fine is answered for each feature. In version
0 there is no upgrade type: a level can only go up (as in Kafka, which does not look at `allow_downgrade` any more). With ZooKeeper
they cannot be changed: 95.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.features import InvalidUpdateVersion, fault_of
from milepost.broker.slices import Work, collected
from milepost.errors import MilepostError
from milepost.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context


def handle(request: UpdateFeaturesRequest, context: Context) -> Work[UpdateFeaturesResponse]:
    cluster, features = context.broker.cluster, context.broker.topology.features
    levels: dict[str, int] = {}
    try:
        features.ensure_movable()
        for asked in request.feature_updates:
            fault = fault_of(cluster, asked.feature, asked.max_version_level, asked.upgrade_type)
            if fault is not None:
                raise InvalidUpdateVersion(f"no feature has been changed: {fault}")
            levels[asked.feature] = asked.max_version_level
            yield
        if not request.validate_only:
            features.move(levels)
    except MilepostError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=str(error))
    answered = request.feature_updates if context.version <= 1 else []
    results = yield from collected(UpdateFeaturesResponse.Result(feature=asked.feature, error_message=None) for asked in answered)
    return UpdateFeaturesResponse(error_message=None, results=results)
