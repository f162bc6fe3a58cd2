"""A request to the controller is repeated until it is answered; what lasts is said, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from milepost.cluster.controller_channel import ControllerChannel
from milepost.cluster.controller_metadata import ControllerMetadata
from milepost.errors import BrokerUnavailable, UnsupportedVersion
from milepost.protocol.messages import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from milepost.replica.metadata import BrokerInfo
from tests.simulation.turns import Turns


class Cluster(ControllerMetadata):
    def __init__(self) -> None:
        super().__init__(1, {})
        self.found: BrokerInfo | None = BrokerInfo(2, 10, ())

    @property
    def controller(self) -> BrokerInfo | None:
        return self.found


class Controller:
    """Answers with an error code, or fails."""

    def __init__(self, turns: Turns):
        self.turns = turns
        self.outcome: int | Exception = 0
        self.asked = 0

    def send(
        self, broker: BrokerInfo, request: Any, version: Any, on_answer: Callable[..., Any], on_failure: Any, **options: Any
    ) -> None:
        self.asked += 1
        outcome = self.outcome
        if isinstance(outcome, Exception):
            self.turns.post(lambda: on_failure(outcome))
        else:
            self.turns.post(lambda: on_answer(AllocateProducerIdsResponse(error_code=outcome)))


class Place:
    def __init__(self) -> None:
        self.turns = Turns()
        self.cluster = Cluster()
        self.controller = Controller(self.turns)
        self.channel = ControllerChannel(self.cluster, self.controller, self.turns)  # type: ignore[arg-type]
        self.answers: list[int] = []

    def ask(self, seconds: float) -> None:
        self.channel.ask(AllocateProducerIdsRequest, None, lambda response: self.answers.append(response.error_code))
        self.turns.advance(seconds)


@pytest.fixture
def place() -> Place:
    return Place()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (31, "the answer is CLUSTER_AUTHORIZATION_FAILED (31)"),
        (41, "the answer is NOT_CONTROLLER (41)"),
        (77, "the answer is STALE_BROKER_EPOCH (77)"),
        (BrokerUnavailable("nobody answers"), "nobody answers"),
        (UnsupportedVersion("AllocateProducerIds is not served"), "AllocateProducerIds is not served"),
    ],
)
def test_what_lasts_is_repeated_ten_times_a_second_and_said_once(place, caplog, outcome, reason):
    place.controller.outcome = outcome
    place.ask(4.0)
    assert not warnings(caplog)
    place.turns.advance(16.0)
    assert 190 <= place.controller.asked <= 210
    assert warnings(caplog) == [
        f"AllocateProducerIdsRequest to the controller: try 50 without success: {reason}; trying again every 0.1 s"
    ]
    assert not place.answers
    place.controller.outcome = 0
    place.turns.advance(1.0)
    assert place.answers == [0]


def test_controller_that_nobody_knows_of_is_waited_for_and_that_is_said(place, caplog):
    controller, place.cluster.found = place.cluster.found, None
    place.ask(10.0)
    assert place.controller.asked == 0
    (told,) = warnings(caplog)
    assert "no broker is known to be it" in told
    place.cluster.found = controller
    place.turns.advance(1.0)
    assert place.answers == [0]


def test_any_other_error_is_an_answer(place):
    place.controller.outcome = -1
    place.ask(5.0)
    assert (place.controller.asked, place.answers) == (1, [-1])


def test_channel_that_is_closed_asks_nobody_any_more(place):
    place.controller.outcome = 41
    place.ask(1.0)
    asked = place.controller.asked
    place.channel.close()
    place.turns.advance(5.0)
    assert place.controller.asked == asked
