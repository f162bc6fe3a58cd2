"""SaslAuthenticate (key 36): one message of another broker's proof (`security/scram`), after SaslHandshake.

Behind the last one the connection is that broker's (`Channel.broker_id`). A proof that fails is over: 58 SASL_AUTHENTICATION_FAILED.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from milepost.broker.requests.sasl_handshake import PROOF
from milepost.errors import AuthenticationFailed
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse
from milepost.replica.broker_proof import broker_id_of
from milepost.security.principal import BROKER, KafkaPrincipal
from milepost.security.scram import ScramServer

if TYPE_CHECKING:
    from milepost.broker.cluster_parts import ClusterParts
    from milepost.broker.context import Context

logger = logging.getLogger("milepost.broker")


def handle(request: SaslAuthenticateRequest, context: Context, broker: ClusterParts | None) -> SaslAuthenticateResponse:
    exchange = context.connection.pop(PROOF, None)
    if not isinstance(exchange, ScramServer):
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="SaslHandshake comes first", auth_bytes=b""
        )
    channel = context.request.channel
    try:
        if exchange.name is None:
            answer = exchange.first(bytes(request.auth_bytes))
            context.connection[PROOF] = exchange
        else:
            answer = exchange.final(bytes(request.auth_bytes))
            channel.broker_id = broker_id_of(exchange.name)
            channel.principal = KafkaPrincipal(BROKER, str(channel.broker_id))
    except AuthenticationFailed as error:
        logger.warning("a connection from %s has not proven to be a broker's: %s", channel.peer, error)
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error), auth_bytes=b""
        )
    return SaslAuthenticateResponse(auth_bytes=answer)
