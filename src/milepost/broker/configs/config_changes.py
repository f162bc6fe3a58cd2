"""Settings that a client changes at a broker that is alone: AlterConfigs and IncrementalAlterConfigs, resource by resource.

What one resource is refused for does not keep the others from being changed. Settings of topics and of groups are written down
together, those of brokers each at once: what they are checked against is what they change.

A group may be set before it exists, as in Kafka. Settings of MOST_GROUPS are kept, whoever exists of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost.broker.configs.config_resources import BrokerSettings, GroupSettings, Settings, TopicSettings, canonical
from milepost.broker.topic_requests import repeated
from milepost.config.group import GroupConfig
from milepost.errors import InvalidRequest, MilepostError, PolicyViolation

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work
    from milepost.broker.topic_changes import Failures
    from milepost.protocol.messages import (
        AlterConfigsRequest,
        AlterConfigsResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

MOST_GROUPS = 10_000

Prepare = Callable[[Any], tuple[Settings, dict[str, str]] | None]


def changing_each(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    broker: Parts,
    answer: type[AlterConfigsResponse] | type[IncrementalAlterConfigsResponse],
    prepare: Prepare,
) -> Work[Any]:
    """`prepare` says for a resource whose settings it names and what they would be; None when it has seen to everything itself."""
    twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
    changes = Changes(broker)
    responses: list[Any] = []
    for resource in request.resources:
        response = answer.Response(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
        responses.append(response)
        try:
            if (resource.resource_type, resource.resource_name) in twice:
                raise InvalidRequest("the resource is in the request more than once")
            prepared = prepare(resource)
            if prepared is not None:
                settings, given = prepared
                settings.check(given)
                if not request.validate_only:
                    changes.add(settings, given, response)
        except MilepostError as error:
            refuse(response, error)
        yield
    yield from changes.making()
    return answer(responses=responses)


class Changes:
    """What is left to be done for a request."""

    def __init__(self, broker: Parts):
        self._broker = broker
        self._topics: dict[str, tuple[dict[str, str], Any]] = {}
        self._groups: dict[str, tuple[dict[str, str], Any]] = {}

    def add(self, settings: Settings, given: dict[str, str], response: Any) -> None:
        """Settings that are valid, and the answer to which it is said if they cannot be made."""
        spelled = canonical(settings.properties, given)
        if spelled == settings.given:
            return
        if isinstance(settings, BrokerSettings):
            settings.store(spelled)
        elif isinstance(settings, TopicSettings):
            self._topics[settings.name] = spelled, response
        elif isinstance(settings, GroupSettings):
            self._ensure_room(settings)
            self._groups[settings.name] = spelled, response

    def _ensure_room(self, group: GroupSettings) -> None:
        known = self._broker.cluster.group_configs
        if group.name not in known and len(known) + len(self._groups) >= MOST_GROUPS:
            raise PolicyViolation(
                f"settings of {MOST_GROUPS} groups are kept, and there are as many; delete those of another group first"
            )

    def making(self) -> Work[None]:
        broker = self._broker
        self._refuse(
            self._topics, (yield from broker.topic_changes.setting({name: given for name, (given, _) in self._topics.items()}))
        )
        failures = yield from broker.topic_changes.saving(
            {name: {"group": name, "to": given} for name, (given, _) in self._groups.items()}
        )
        self._refuse(self._groups, failures)
        for name in self._groups.keys() - failures.keys():
            given = self._groups[name][0]
            broker.consumer_groups.use_config(name, GroupConfig.in_force(given, broker.config) if given else None)
            yield

    def _refuse(self, wanted: dict[str, tuple[dict[str, str], Any]], failures: Failures) -> None:
        for name, failure in failures.items():
            refuse(wanted[name][1], failure)


def refuse(response: Any, error: MilepostError) -> None:
    response.error_code, response.error_message = error.code, str(error)
