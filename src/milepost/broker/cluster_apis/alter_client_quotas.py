"""AlterClientQuotas (key 49) in a cluster: each entity's quotas are one node in ZooKeeper, and every broker hears of the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis.alter_client_quotas import Answer, Parts, Wanted, changes_of, parts_of
from milepost.broker.client_quotas import WHOLE, entity_of, with_changes
from milepost.broker.gathering import Gathering
from milepost.broker.topic_requests import repeated
from milepost.cluster import settings
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 49


def handle(request: AlterClientQuotasRequest, context: Context) -> None:
    broker = cast("ClusteredBroker", context.broker)
    twice = repeated(parts_of(entry) for entry in request.entries)
    entries = {parts_of(entry): entry for entry in request.entries}
    answers = Gathering[Answer](len(entries), lambda found: context.answer(AlterClientQuotasResponse(entries=found)))
    for place, (parts, entry) in enumerate(entries.items()):

        def done(code: int, message: str | None = None, place: int = place, parts: Parts = parts) -> None:
            entity = [Answer.Entity(entity_type=kind, entity_name=name) for kind, name in parts]
            answers.put(place, Answer(error_code=code, error_message=message, entity=entity))

        try:
            if parts in twice:
                raise InvalidRequest("the entity is in the request more than once")
            alter(entry, parts, broker, request.validate_only, done)
        except MilepostError as error:
            done(error.code, str(error))


def alter(entry: Wanted, parts: Parts, broker: ClusteredBroker, validate_only: bool, done: Callable[[int], object]) -> None:
    entity = entity_of(list(parts))
    quotas = with_changes(broker.cluster.client_quotas, entity, changes_of(entry, entity))
    if validate_only:
        done(ErrorCode.NONE)
        return
    values: dict[str, float] = next((each["values"] for each in quotas if each["entity"] == entity), {})

    def stored(is_stored: bool) -> None:
        if is_stored:
            broker.cluster.client_quotas = quotas
        done(ErrorCode.NONE if is_stored else ErrorCode.UNKNOWN_SERVER_ERROR)

    configs = {key: str(int(value) if key in WHOLE else float(value)) for key, value in values.items()}
    broker.member.run(settings.write(settings.quota_path(entity), configs), stored, lambda: stored(False))
