"""A broker that stops politely, without a cluster around it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from milepost.cluster.controlled_shutdown import MOST_LOOKS, ControlledShutdown
from milepost.cluster.isr_proposals import ordered
from milepost.cluster.protocol_versions import protocol_versions
from milepost.config.broker import BrokerConfig
from milepost.protocol.messages import ControlledShutdownResponse
from milepost.replica.metadata import PartitionInfo


class Timers:
    def __init__(self):
        self.waiting = []

    def later(self, seconds, task):
        self.waiting.append(task)
        return SimpleNamespace(cancel=lambda: self.waiting.remove(task))

    def turn(self):
        self.waiting.pop(0)()


class Link:
    def __init__(self, *remaining):
        self.answers = list(remaining)

    def ask(self, make_request, version, answered, purpose):
        answered(ControlledShutdownResponse(remaining_partitions=self.answers.pop(0)))


@pytest.fixture
def timers():
    return Timers()


def leave(timers, controller_channel, channels=None):
    """What happens when it is gone."""
    controller = None if channels is None else SimpleNamespace(parts=SimpleNamespace(channels=channels))
    member = SimpleNamespace(broker_id=1, broker_epoch=5, is_registered=True, controller=controller)
    gone = []
    shutdown = ControlledShutdown(member, controller_channel, protocol_versions("3.9"), timers)
    shutdown.start(lambda: gone.append(True), BrokerConfig())
    assert shutdown.is_shutting_down
    return gone


def test_broker_that_leads_nothing_any_more_goes_at_once(timers):
    assert leave(timers, Link([])) == [True]
    assert timers.waiting == []


def test_what_is_still_led_is_tried_again(timers):
    remaining = ControlledShutdownResponse.RemainingPartition(topic_name="t", partition_index=0)
    gone = leave(timers, Link([remaining], []))
    assert gone == []
    timers.turn()
    assert gone == [True]


def test_broker_whose_controller_does_not_answer_says_so_and_goes(timers, caplog):
    gone = leave(timers, SimpleNamespace(ask=lambda *asked, purpose: None))
    assert gone == []
    timers.turn()
    assert gone == [True]
    assert caplog.messages == ["broker 1 stops: no controller answered within 10 s"]


def test_controller_goes_when_the_others_were_told(timers):
    channels = SimpleNamespace(waiting=2)
    gone = leave(timers, Link([]), channels)
    timers.turn()
    assert gone == []
    channels.waiting = 0
    timers.turn()
    assert gone == [True]


def test_controller_does_not_wait_for_ever_for_somebody_who_does_not_listen(timers):
    gone = leave(timers, Link([]), SimpleNamespace(waiting=1))
    for _ in range(MOST_LOOKS):
        assert gone == []
        timers.turn()
    assert gone == [True]


def test_newcomers_among_the_in_sync_replicas_come_last():
    known = PartitionInfo(3, 1, (3, 1), (2, 3, 1), (), 1, 1)
    assert ordered(frozenset({1, 2, 3}), known) == [3, 1, 2]
    assert ordered(frozenset({1}), known) == [1]
    assert ordered(frozenset({2, 1}), None) == [1, 2]
