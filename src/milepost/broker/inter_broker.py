"""What only brokers and controllers send each other: refused with 31 CLUSTER_AUTHORIZATION_FAILED from everybody else.

A broker that is alone has no others. In a cluster a connection proves to be a broker's before its first request (`replica/broker_proof`);
nothing that it says of itself counts, neither its client id nor a field. What these ask for is not harmless: to lose a partition, to change
who is in sync, to hand out producer ids. Kafka without an authorizer does what they say (CVE-2018-1288 was of that kind); here no setting
is needed to be safe. A broker that is alone lists none of them in ApiVersions.

    code at the top          LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, AlterPartition, Envelope, AllocateProducerIds,
                             AddPartitionsToTxn from version 4
    code for each partition  the state of share groups (83 to 87), whose answers have no top

The rest of KRaft's own (Vote, BrokerRegistration, ...) has no schema here: the connection is closed, as by any Kafka broker whose
listener does not serve an API.

Requests of clients in which brokers may say more are looked at by their handlers (`Context.is_broker`, `Context.speaks_for`):

    Fetch of a replica          refused: it says what the replica has, and with that commits it
    ListOffsets of a replica    answered as a consumer's, which does not see what is not committed
    OffsetForLeaderEpoch        the same for everybody
    WriteTxnMarkers             an administrator's: it aborts what is open in the producer's current epoch, and nothing else
"""

from __future__ import annotations

from typing import Any

from milepost.broker.slices import Work
from milepost.codec.buffer import Buffer
from milepost.protocol import frames, generated
from milepost.protocol.apis import BY_KEY
from milepost.protocol.error_codes import ErrorCode
from milepost.protocol.headers import RequestHeader

ADD_PARTITIONS_TO_TXN = 24
CODE_AT_THE_TOP = {4, 5, 6, 7, ADD_PARTITIONS_TO_TXN, 56, 58, 67}
SHARE_GROUP_STATE = {83, 84, 85, 86, 87}
KEYS = frozenset(CODE_AT_THE_TOP | SHARE_GROUP_STATE)
SERVED_IN_A_CLUSTER = frozenset((4, 5, 6, 7, 17, 36, 56, 67))
"""APIs whose handlers are of use to other brokers only: the above that have one, and the proof to be a broker (SaslHandshake,
SaslAuthenticate)."""
LOGIN = frozenset((17, 36))
BROKERS_SINCE = {ADD_PARTITIONS_TO_TXN: 4}
"""APIs that clients use as well, and the first version of each that only brokers do."""


def is_between_brokers(header: RequestHeader) -> bool:
    first = BROKERS_SINCE.get(header.api_key)
    return header.api_key in KEYS if first is None else header.api_version >= first


REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def refusing(header: RequestHeader, frame: Buffer) -> Work[Any]:
    """The answer to a request of one of `KEYS`. Of what is refused as a whole nothing is read."""
    response: Any = generated.class_named(f"{BY_KEY[header.api_key].name}Response")
    if header.api_key in CODE_AT_THE_TOP:
        return response(error_code=REFUSED)
    # Requests and responses of these have the same shape: topics by id, partitions by number.
    request = yield from frames.decoding_request(header, frame)
    results = []
    for topic in request.topics:
        result = response.Result(topic_id=topic.topic_id, partitions=[])
        results.append(result)
        for part in topic.partitions:
            result.partitions.append(response.Result.Partition(partition=part.partition, error_code=REFUSED))
            yield
        yield
    return response(results=results)
