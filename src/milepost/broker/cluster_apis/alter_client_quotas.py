"""AlterClientQuotas (key 49) in a cluster: each entity's quotas are in one node in ZooKeeper, and every broker hears of the change.

The node is read first: another broker may have changed it a moment ago, and what else Kafka keeps there (passwords of users) stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis.alter_client_quotas import Answer, EntityParts, Wanted, checked, places_of
from milepost.broker.configs.client_quotas import WHOLE
from milepost.broker.gathering import Gathering
from milepost.cluster import settings
from milepost.cluster.zookeeper.session import Steps
from milepost.errors import MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context
    from milepost.broker.slices import Work

KEY = 49


def handle(request: AlterClientQuotasRequest, context: Context) -> Work[None]:
    broker = cast("ClusterParts", context.broker)
    context.goes_on = True
    places = yield from places_of(request)
    answers = Gathering[Answer](len(places), lambda found: context.answer(AlterClientQuotasResponse(entries=found)))
    for place, (parts, entries) in enumerate(places.items()):

        def done(code: int, message: str | None = None, place: int = place, parts: EntityParts = parts) -> None:
            entity = [Answer.Entity(entity_type=kind, entity_name=name) for kind, name in parts]
            answers.put(place, Answer(error_code=code, error_message=message, entity=entity))

        try:
            alter(entries, parts, broker, request.validate_only, done)
        except MilepostError as error:
            done(error.code, str(error))
        yield


def alter(
    entries: list[Wanted], parts: EntityParts, broker: ClusterParts, validate_only: bool, done: Callable[[int], object]
) -> None:
    entity, changes = checked(parts, entries)
    path = settings.quota_path(entity)
    if validate_only:
        done(ErrorCode.NONE)
        return

    def change() -> Steps[bool]:
        configs = (yield from settings.read([path])).get(path, {})
        for key, value in changes.items():
            if value is None:
                configs.pop(key, None)
            else:
                configs[key] = str(int(value) if key in WHOLE else float(value))
        return (yield from settings.write(path, configs))

    def stored(is_stored: bool) -> None:
        done(ErrorCode.NONE if is_stored else ErrorCode.UNKNOWN_SERVER_ERROR)

    broker.member.run(change(), stored, lambda: stored(False))
