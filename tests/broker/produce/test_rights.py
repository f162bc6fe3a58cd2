"""Who may not write is refused on every way, in the first request and in those behind it."""

from __future__ import annotations

import pytest

from milepost.broker.authorizer import Operation
from milepost.broker.kinds.alone import AloneBroker
from milepost.broker.lifecycle import Life
from milepost.record.builder import build_batch
from milepost.record.records import Record
from tests.broker.attaching import attached
from tests.broker.conftest import SETTINGS
from tests.broker.produce.ways import batch, produced, request_of, stored
from tests.broker.topics import create, wanted
from tests.broker.wire import Wire
from tests.golden_fixture import Golden

TOPIC_AUTHORIZATION_FAILED = 29


class OnlyOpen:
    """Lets everybody write to the topic "open", and nowhere else."""

    allows_everything = False
    generation = 0

    def denies(self, access, context) -> str | None:
        return "not there" if access.name == "closed" and access.operation is Operation.WRITE else None

    def note_denial(self, access, requester) -> None:
        """The answers say it."""


def test_topics_that_may_not_be_written_to(way, tmp_path):
    broker = AloneBroker({"log.dirs": str(tmp_path), **SETTINGS}, authorizer=OnlyOpen())
    with Life(broker), Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("open"), wanted("closed"))
        both = request_of({"open": [(0, batch(b"x"))], "closed": [(0, batch(b"y"))]})
        only_open = request_of({"open": [(0, batch(b"z"))]})
        assert produced(wire, [only_open, both, both, only_open]) == [
            [(0, 0)],
            [(0, 1), (TOPIC_AUTHORIZATION_FAILED, -1)],
            [(0, 2), (TOPIC_AUTHORIZATION_FAILED, -1)],
            [(0, 3)],
        ]
        assert stored(wire, "closed") == []


@pytest.mark.parametrize("acks", [1, -1])
def test_attached_directories(way, golden: Golden, acks):
    data = build_batch([Record(0, 1_700_000_000_000, b"k", b"v")], base_offset=0)
    with attached(golden("page_visits/kafka-4.3.0") / "logdir") as broker, Wire(broker.bootstrap_servers) as wire:
        partition = next(iter(broker.logs.logs))
        requests = [request_of({partition.topic: [(partition.partition, data)]}, acks=acks)] * 4
        assert produced(wire, requests) == [[(TOPIC_AUTHORIZATION_FAILED, -1)]] * 4
