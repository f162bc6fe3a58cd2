"""Settings that a client changes, resource by resource: what AlterConfigs and IncrementalAlterConfigs share.

What one resource is refused for does not keep the others from being changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost.broker.configs.config_resources import Settings
from milepost.errors import InvalidRequest, MilepostError

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work
    from milepost.protocol.messages import (
        AlterConfigsRequest,
        AlterConfigsResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

MOST_SETTINGS = 1_000
"""No resource has as many; they are looked at in one piece."""
Prepare = Callable[[Any], tuple[Settings, dict[str, str]] | None]


def changing_each(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    broker: Parts,
    answer: type[AlterConfigsResponse] | type[IncrementalAlterConfigsResponse],
    prepare: Prepare,
) -> Work[Any]:
    """`prepare` says for a resource whose settings it names and what they would be; None when it has seen to everything itself."""
    times: Counter[tuple[int, str]] = Counter()
    for resource in request.resources:
        times[resource.resource_type, resource.resource_name] += 1
        yield
    changes = broker.topology.configs.changes()
    responses: list[Any] = []
    for resource in request.resources:
        response = answer.Response(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
        responses.append(response)
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("the resource is in the request more than once")
            if len(resource.configs) > MOST_SETTINGS:
                raise InvalidRequest(f"{len(resource.configs)} settings of one resource; at most {MOST_SETTINGS} are taken")
            prepared = prepare(resource)
            if prepared is not None:
                settings, given = prepared
                changes.ensure_stored(settings)
                settings.check(given)
                if not request.validate_only:
                    changes.add(settings, given, partial(refuse, response))
        except MilepostError as error:
            refuse(response, error)
        yield
    yield from changes.making()
    return answer(responses=responses)


def refuse(response: Any, error: MilepostError) -> None:
    response.error_code, response.error_message = error.code, str(error)
