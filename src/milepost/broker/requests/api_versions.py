"""ApiVersions (key 18): what this broker serves, and in which versions. The first request of every client.

Answered before anything else and as often as asked. Its response header is always version 0, because the client
cannot know yet which one we speak. Only what has a handler is listed: clients use what they see.

From version 3 the response also has the features of the cluster (`features`): those that are supported, and the finalized
levels with their epoch. A supported feature whose lowest level is 0 is left out of version 3, which older clients
read: they take 0 for a mistake (KAFKA-17011).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from milepost.broker.features import FEATURES, finalized
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.protocol.apis import Api

NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    if context.version >= 3 and not (
        NAME.fullmatch(request.client_software_name) and NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    context.connection["software"] = (request.client_software_name, request.client_software_version)
    response = listing(context.broker.dispatcher.served, ErrorCode.NONE)
    add_features(response, context)
    return response


def add_features(response: ApiVersionsResponse, context: Context) -> None:
    cluster = context.broker.cluster
    response.supported_features = [
        ApiVersionsResponse.SupportedFeature(name=feature.name, min_version=feature.lowest, max_version=feature.highest)
        for feature in FEATURES.values()
        if feature.lowest > 0 or context.version >= 4
    ]
    response.finalized_features_epoch = cluster.features_epoch
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeature(name=name, max_version_level=level, min_version_level=level)
        for name, level in finalized(cluster).items()
    ]


def unsupported(served: Mapping[int, Api]) -> ApiVersionsResponse:
    """For a version that is newer than ours."""
    return listing(served, ErrorCode.UNSUPPORTED_VERSION)


def listing(served: Mapping[int, Api], error_code: int) -> ApiVersionsResponse:
    rows = [
        ApiVersionsResponse.ApiKey(api_key=api.key, min_version=api.advertised[0], max_version=api.advertised[1])
        for api in sorted(served.values())
    ]
    return ApiVersionsResponse(error_code=error_code, api_keys=rows)
