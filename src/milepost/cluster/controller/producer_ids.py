"""Blocks of producer ids: each broker takes a thousand at a time, and no id is handed out twice.

/latest_producer_id_block names the last block taken. The next one begins behind it; the broker that writes it over the version it
read has it.
"""

from __future__ import annotations

from milepost.cluster.controller_election import Term, guarded, unguarded
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Error, Get, SetData
from milepost.cluster.zookeeper.session import Steps
from milepost.protocol.error_codes import ErrorCode

BLOCK_SIZE = 1000
MOST = 2**63 - 1


def allocate(broker_id: int, term: Term | None) -> Steps[tuple[int, int, int]]:
    """An error code, the first id, and how many. `term` where the controller does it; brokers of older clusters do it themselves."""
    while True:
        (found,) = yield [Get(znodes.PRODUCER_ID_BLOCK)]
        if not found.ok:
            return ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0
        last = znodes.parse_producer_id_block(found.data)
        if last is None and found.data:
            return ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0  # from the start again would be ids that others have
        start = 0 if last is None else last[1] + 1
        if start > MOST - BLOCK_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0
        data = znodes.producer_id_block(broker_id, start, start + BLOCK_SIZE - 1)
        write = SetData(znodes.PRODUCER_ID_BLOCK, data, found.version)
        (answer,) = (yield [write]) if term is None else unguarded((yield guarded(term, [write])))
        if answer.ok:
            return 0, start, BLOCK_SIZE
        if answer.error is Error.CONNECTION_LOSS:
            (now,) = yield [Get(znodes.PRODUCER_ID_BLOCK)]
            if now.ok and now.data == data:
                return 0, start, BLOCK_SIZE
        elif answer.error is not Error.BAD_VERSION:
            return ErrorCode.UNKNOWN_SERVER_ERROR, 0, 0
