"""ApiVersions (key 18): what this broker serves, and in which versions. The first request of every client.

Answered before anything else and as often as asked. Its response header is always version 0, because the client
cannot know yet which one we speak. Only what has a handler is listed: clients use what they see.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.dispatch import Dispatcher

KEY = 18
NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    if context.version >= 3 and not (
        NAME.fullmatch(request.client_software_name) and NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    context.connection["software"] = (request.client_software_name, request.client_software_version)
    return listing(context.broker.dispatcher, ErrorCode.NONE)


def unsupported(dispatcher: Dispatcher) -> ApiVersionsResponse:
    """For a version that is newer than ours."""
    return listing(dispatcher, ErrorCode.UNSUPPORTED_VERSION)


def listing(dispatcher: Dispatcher, error_code: int) -> ApiVersionsResponse:
    rows = [
        ApiVersionsResponse.ApiKey(api_key=api.key, min_version=api.advertised[0], max_version=api.advertised[1])
        for api in sorted(dispatcher.served.values())
    ]
    return ApiVersionsResponse(error_code=error_code, api_keys=rows)
