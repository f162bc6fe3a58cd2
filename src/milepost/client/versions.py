"""Which version of a request goes out: the newest that both sides know.

A client asks with ApiVersions before anything else. A broker that does not know the version of that very question answers in
version 0 with error 35, and says which it would have known; then the client asks once more.
"""

from __future__ import annotations

from typing import Any

from milepost._version import __version__
from milepost.client.addresses import Address
from milepost.errors import RequestFailed, UnsupportedVersion
from milepost.protocol.apis import API_VERSIONS, BY_KEY, BY_NAME, Api, Versions
from milepost.protocol.error_codes import ErrorCode, error_name
from milepost.protocol.follower_fetch_frames import KEY as FETCH
from milepost.protocol.follower_fetch_frames import RepeatedFetch
from milepost.protocol.message import Message
from milepost.protocol.messages import ApiVersionsRequest

# Version 4 says nothing more to a client that asks for no features, and Kafka before 3.9 would need a second question.
API_VERSIONS_VERSION = 3


def api_of(request: Message | RepeatedFetch) -> Api:
    return BY_KEY[FETCH] if isinstance(request, RepeatedFetch) else BY_NAME[type(request).__name__.removesuffix("Request")]


def question(version: int) -> Message:
    """The ApiVersions request. Who asks is said from version 3 on."""
    if version < 3:
        return ApiVersionsRequest()
    return ApiVersionsRequest(client_software_name="milepost", client_software_version=__version__)


def second_question(response: Any) -> int | None:
    """The version to ask again in, or None if the answer is one."""
    if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
        return None
    listed = [row.max_version for row in response.api_keys if row.api_key == API_VERSIONS]
    return min(listed[0], API_VERSIONS_VERSION) if listed else 0


def versions_of(response: Any, address: Address) -> dict[int, Versions]:
    if response.error_code:
        raise RequestFailed(
            f"{address} answers ApiVersions with {error_name(response.error_code)} ({response.error_code})", response.error_code
        )
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


def choose(api: Api, versions: dict[int, Versions], highest: int | None, address: Address) -> int:
    theirs = versions.get(api.key)
    if theirs is None:
        raise UnsupportedVersion(f"the broker at {address} does not serve {api.name}; it lists {len(versions)} APIs")
    first, last = api.served if highest is None else (api.served[0], min(api.served[1], highest))
    version = min(last, theirs[1])
    if version < max(first, theirs[0]):
        raise UnsupportedVersion(
            f"the broker at {address} speaks {api.name} {theirs[0]} to {theirs[1]}, this client {first} to {last}"
        )
    return version
