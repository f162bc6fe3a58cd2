"""kill -9 between a request about a transaction and its answer: asked again, the next life of the broker answers what Kafka 4.3.0 answered.

The conversation is that of `transactions-kafka-4.3.0.txt`. A client that got no answer sends its request again: its records are not
doubled, its transaction ends once, and its epoch is raised once. Not interrupted are requests that are meant to do something each time
they come: InitProducerId and WriteTxnMarkers.
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from milepost.protocol.message import Message
from milepost.protocol.messages import DescribeTransactionsRequest, EndTxnRequest
from tests.broker.killed import KilledBroker, killed_broker
from tests.broker.test_transactions_as_kafka import recorded
from tests.broker.transaction_conversation import PARTS
from tests.broker.transaction_talk import RESTING, Talk
from tests.broker.wire import Wire
from tests.waiting import until

INTERRUPTED = {"AddOffsetsToTxnRequest", "AddPartitionsToTxnRequest", "EndTxnRequest", "ProduceRequest", "TxnOffsetCommitRequest"}
# Before the broker has read the request, perhaps; and when it has done everything but answer, most likely.
DELAYS = (0.0, 0.03)


class KillingWire(Wire):
    """Interrupts one in `one_in` of the requests.

    A kill between a marker and the note that it was written has the marker written again, as in Kafka, and offsets behind it are one
    higher. So an EndTxn is interrupted before it is read, or when everything it leads to is done.
    """

    def __init__(self, broker: KilledBroker, one_in: int, rng: random.Random):
        super().__init__(broker.bootstrap)
        self._broker = broker
        self._one_in = one_in
        self._rng = rng
        self._last: Message | None = None

    def ask(self, request: Message, version: int):
        is_first, self._last = request is not self._last, request
        if is_first and type(request).__name__ in INTERRUPTED and self._rng.randrange(self._one_in) == 0:
            delay = self._rng.choice(DELAYS)
            if not isinstance(request, EndTxnRequest):
                self.send(request, version)
                time.sleep(delay)
            elif delay:
                super().ask(request, version)
                until(lambda: self._state(request.transactional_id) in RESTING)
            else:
                self._broker.process.send_signal(signal.SIGSTOP)
                self.send(request, version)
            self._broker.kill()
            self.reconnect()
        return super().ask(request, version)

    def _state(self, name: str) -> str:
        (state,) = super().ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
        return str(state.transaction_state)


def interrupted(directory: Path, part: str, one_in: int, seed: int) -> tuple[list[str], int]:
    """What was said, and how often the broker was killed."""
    with killed_broker(
        directory, settings={"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
    ) as broker:
        wire = KillingWire(broker, one_in, random.Random(seed))
        talk = Talk(broker.bootstrap, wire)
        try:
            PARTS[part](talk)
        finally:
            talk.close()
        return talk.lines, broker.kills


@pytest.mark.parametrize("part", ["version_1", "version_2"])
def test_an_interrupted_conversation_gets_the_answers_of_kafka(tmp_path, part):
    lines, kills = interrupted(tmp_path, part, one_in=8, seed=1)
    assert lines == recorded()[part]
    assert kills >= 2


@pytest.mark.trouble
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", ["version_1", "version_2", "levels"])
def test_a_conversation_that_is_interrupted_at_every_request_gets_the_answers_of_kafka(tmp_path, part, seed):
    lines, kills = interrupted(tmp_path, part, one_in=1, seed=seed)
    assert lines == recorded()[part]
    assert kills >= 9
