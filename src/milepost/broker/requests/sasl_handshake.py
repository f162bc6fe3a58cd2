"""SaslHandshake (key 17): another broker is about to prove that it is one of this cluster (`replica/broker_proof`).

Only on the listeners for brokers. Where clients log in, `broker/login` has answered it before it comes here; elsewhere the answer is
Kafka's on a listener without authentication: 34 ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse
from milepost.security.scram import SHA_256

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

PROOF = "proof"


def handle(request: SaslHandshakeRequest, context: Context, broker: ClusterParts | None) -> SaslHandshakeResponse:
    if broker is None or context.listener not in broker.broker_listeners:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    if request.mechanism != SHA_256:
        return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[SHA_256])
    context.connection[PROOF] = broker.proof.server()
    return SaslHandshakeResponse(mechanisms=[SHA_256])
