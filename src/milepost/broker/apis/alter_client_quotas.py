"""AlterClientQuotas (key 49): set quotas of clients, or take them away. The changes of one entity take effect together or not at
all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.client_quotas import Entity, ensure_quota, entity_of, with_changes
from milepost.broker.topic_requests import repeated
from milepost.errors import InvalidRequest, MilepostError
from milepost.protocol.messages import AlterClientQuotasRequest, AlterClientQuotasResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context
    from milepost.cluster.solo import SoloCluster

KEY = 49
Wanted = AlterClientQuotasRequest.Entry
Answer = AlterClientQuotasResponse.Entry
Parts = tuple[tuple[str, str | None], ...]


def handle(request: AlterClientQuotasRequest, context: Context) -> AlterClientQuotasResponse:
    twice = repeated(parts_of(entry) for entry in request.entries)
    answers = []
    for parts, entry in {parts_of(entry): entry for entry in request.entries}.items():
        answer = Answer(error_message=None, entity=[Answer.Entity(entity_type=kind, entity_name=name) for kind, name in parts])
        try:
            if parts in twice:
                raise InvalidRequest("the entity is in the request more than once")
            alter(entry, parts, context.broker.solo, request.validate_only)
        except MilepostError as error:
            answer.error_code, answer.error_message = error.code, str(error)
        answers.append(answer)
    return AlterClientQuotasResponse(entries=answers)


def alter(entry: Wanted, parts: Parts, cluster: SoloCluster, validate_only: bool) -> None:
    entity = entity_of(list(parts))
    changes = changes_of(entry, entity)
    if not validate_only:
        cluster.alter_client_quotas(with_changes(cluster.client_quotas, entity, changes))


def parts_of(entry: Wanted) -> Parts:
    return tuple(
        sorted(((part.entity_type, part.entity_name) for part in entry.entity), key=lambda part: (part[0], part[1] or ""))
    )


def changes_of(entry: Wanted, entity: Entity) -> dict[str, float | None]:
    twice = repeated(op.key for op in entry.ops)
    if twice:
        raise InvalidRequest(f"{', '.join(sorted(twice))}: in the entry more than once")
    for op in entry.ops:
        if not op.remove:
            ensure_quota(entity, op.key, op.value)
    return {op.key: None if op.remove else op.value for op in entry.ops}
