"""AlterClientQuotas (key 49): set quotas of clients, or take them away. The changes of one entity take effect together or not at
all. In a cluster every broker hears of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.configs.client_quotas import Entity, ensure_quota, entity_of
from milepost.broker.topic_requests import repeated
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse
from milepost.work import pieces

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.broker.parts import Parts
    from milepost.broker.slices import Work

Wanted = AlterClientQuotasRequest.Entry
Answer = AlterClientQuotasResponse.Entry
MOST_PARTS = 100
"""Of one entity, which may have two. One with more is refused as it came."""
EntityParts = tuple[tuple[str, str | None], ...]


def handle(request: AlterClientQuotasRequest, context: Context) -> Work[AlterClientQuotasResponse]:
    context.goes_on = True
    return context.broker.topology.topics.in_turn(altering(request, context.broker))


def altering(request: AlterClientQuotasRequest, broker: Parts) -> Work[AlterClientQuotasResponse]:
    places = yield from places_of(request)
    answers = []
    changes: dict[str, tuple[Entity, dict[str, float | None]]] = {}
    for number, (parts, entries) in enumerate(places.items()):
        answer = Answer(error_message=None, entity=[])
        for piece in pieces(parts):
            answer.entity += [Answer.Entity(entity_type=kind, entity_name=name) for kind, name in piece]
            yield
        try:
            changes[str(number)] = checked(parts, entries)
        except MilepostError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        answers.append(answer)
        yield
    if not request.validate_only:
        for place, failure in (yield from broker.topology.quotas.altering(changes)).items():
            answers[int(place)].error_code, answers[int(place)].error_message = failure.code, str(failure) or None
    return AlterClientQuotasResponse(entries=answers)


def places_of(request: AlterClientQuotasRequest) -> Work[dict[EntityParts, list[Wanted]]]:
    """What a request has for each entity that it names."""
    places: dict[EntityParts, list[Wanted]] = {}
    for entry in request.entries:
        places.setdefault((yield from parts_of(entry)), []).append(entry)
        yield
    return places


def checked(parts: EntityParts, entries: list[Wanted]) -> tuple[Entity, dict[str, float | None]]:
    """An entity that may have quotas, and which of them are to change."""
    if len(entries) > 1:
        raise InvalidRequest("the entity is in the request more than once")
    if len(parts) > MOST_PARTS:
        raise InvalidRequest(f"the entity has {len(parts)} parts, at most {MOST_PARTS} are looked at; name each entity type once")
    entity = entity_of(list(parts))
    return entity, changes_of(entries[0], entity)


def parts_of(entry: Wanted) -> Work[EntityParts]:
    parts: list[tuple[str, str | None]] = []
    for piece in pieces(entry.entity):
        parts += [(part.entity_type, part.entity_name) for part in piece]
        yield
    if len(parts) <= MOST_PARTS:
        parts.sort(key=lambda part: (part[0], part[1] or ""))
    return tuple(parts)


def changes_of(entry: Wanted, entity: Entity) -> dict[str, float | None]:
    twice = repeated(op.key for op in entry.ops)
    if twice:
        raise InvalidRequest(f"{', '.join(sorted(twice))}: in the entry more than once")
    for op in entry.ops:
        if not op.remove:
            ensure_quota(entity, op.key, op.value)
    return {op.key: None if op.remove else op.value for op in entry.ops}
