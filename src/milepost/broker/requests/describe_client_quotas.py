"""DescribeClientQuotas (key 48): the quotas of the entities that match all components of a filter, exactly, by default or by any
name. Of a cluster: what is stored now, since another broker may have changed it a moment ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.configs.client_quotas import matching
from milepost.broker.slices import Work, collected
from milepost.errors import MilepostError
from milepost.protocol.messages import DescribeClientQuotasRequest, DescribeClientQuotasResponse

if TYPE_CHECKING:
    from milepost.broker.context import Context

Entry = DescribeClientQuotasResponse.Entry


def handle(request: DescribeClientQuotasRequest, context: Context) -> Work[DescribeClientQuotasResponse]:
    yield from context.broker.topology.quotas.refreshing()
    components = [(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        found = yield from matching(context.broker.cluster.client_quotas, components, request.strict)
    except MilepostError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
    entries = yield from collected(
        Entry(
            entity=[Entry.Entity(entity_type=kind, entity_name=name) for kind, name in entry["entity"].items()],
            values=[Entry.Value(key=key, value=value) for key, value in entry["values"].items()],
        )
        for entry in found
    )
    return DescribeClientQuotasResponse(entries=entries)
