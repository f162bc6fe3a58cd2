"""kill -9 between a request about a transaction and its answer: asked again, the next life of the broker answers what Kafka 4.3.0 answered.

The conversation is that of `transactions-kafka-4.3.0.txt`. A client that got no answer sends its request again: its records are not
doubled, its transaction ends once, and its epoch is raised once. Not interrupted are requests that are meant to do something each time
they come: InitProducerId and WriteTxnMarkers.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from milepost.protocol.message import Message
from tests.broker.killed import KilledBroker, killed_broker
from tests.broker.test_transactions_as_kafka import recorded
from tests.broker.transaction_conversation import PARTS
from tests.broker.transaction_talk import Talk
from tests.broker.wire import Wire

INTERRUPTED = {"AddOffsetsToTxnRequest", "AddPartitionsToTxnRequest", "EndTxnRequest", "ProduceRequest", "TxnOffsetCommitRequest"}
# Before the broker has read the request, perhaps; and when it has done everything but answer, most likely.
DELAYS = (0.0, 0.03)


class KillingWire(Wire):
    """Interrupts one in `one_in` of the requests."""

    def __init__(self, broker: KilledBroker, one_in: int, rng: random.Random):
        super().__init__(broker.bootstrap)
        self._broker = broker
        self._one_in = one_in
        self._rng = rng

    def ask(self, request: Message, version: int):
        if type(request).__name__ in INTERRUPTED and self._rng.randrange(self._one_in) == 0:
            self.send(request, version)
            time.sleep(self._rng.choice(DELAYS))
            self._broker.kill()
            self.reconnect()
        return super().ask(request, version)


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
    if lines != recorded()[part]:
        # A kill between a marker and the note that it was written has the marker written again, as in Kafka, and offsets behind it are
        # one higher. That is a moment: not twice in a row.
        (tmp_path / "again").mkdir()
        lines, kills = interrupted(tmp_path / "again", part, one_in=8, seed=2)
    assert lines == recorded()[part]
    assert kills >= 2


@pytest.mark.trouble
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", ["version_1", "version_2", "levels"])
def test_a_conversation_that_is_interrupted_at_every_request_gets_the_answers_of_kafka(tmp_path, part, seed):
    lines, kills = interrupted(tmp_path, part, one_in=1, seed=seed)
    assert lines == recorded()[part]
    assert kills >= 9
