"""AddPartitionsToTxn (key 24) in a cluster: from clients as ever, and from version 4 from other brokers, by the client id that they use.

A broker that we have not heard of yet gets 15 COORDINATOR_NOT_AVAILABLE, after which its producer tries again; anybody else gets 31 for
these versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from milepost.broker.apis import add_partitions_to_txn
from milepost.broker.inter_broker import ADD_PARTITIONS_TO_TXN, BROKERS_SINCE
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from milepost.broker.clustered import ClusteredBroker
    from milepost.broker.context import Context

KEY = 24
CLIENT_ID = "AddPartitionsManager-client-"


def handle(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse | None:
    if context.version >= BROKERS_SINCE[ADD_PARTITIONS_TO_TXN]:
        brokers = cast("ClusteredBroker", context.broker).cluster.brokers
        if context.client_id not in {f"{CLIENT_ID}{broker_id}" for broker_id in brokers}:
            is_new = context.client_id.startswith(CLIENT_ID)
            return AddPartitionsToTxnResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE if is_new else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            )
    return add_partitions_to_txn.handle(request, context)
