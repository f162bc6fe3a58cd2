"""ListOffsets at a leader that has just been elected: it may not know yet how much is committed (KIP-207).

Its high watermark is what the leader before told it, and may be lower than what consumers have read there. Until it has reached the start
of the leader's epoch, the end of the log and all times behind the watermark are unknown: 78 OFFSET_NOT_AVAILABLE, and 5
LEADER_NOT_AVAILABLE for clients that do not know that one.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from milepost.broker.requests import list_offsets
from milepost.protocol.messages import ListOffsetsRequest
from milepost.work import at_once
from tests.log.making import produced
from tests.replica.test_leader_and_isr import NAME, World, world  # noqa: F401  (a fixture)

LATEST, EARLIEST, NEWEST = -1, -2, -3
CONSUMER, FOLLOWER, TOOL = -1, 2, -2


@pytest.fixture
def elected(world: World) -> World:  # noqa: F811
    """Five records, of the times 10 to 50; it knows that two of them are committed."""
    log = world.partition.log
    for time in (10, 20, 30, 40, 50):
        log.append_as_leader(produced(timestamp=time))
    log.update_high_watermark(2)
    assert world.tell(0, [1, 2], 0) == 0
    assert log.high_watermark == 2
    return world


def ask(world: World, timestamp: int, version: int = 10, replica_id: int = CONSUMER, isolation: int = 0) -> tuple[int, int]:  # noqa: F811
    asked = ListOffsetsRequest.Topic
    part = asked.Partition(partition_index=NAME.partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id, isolation_level=isolation, topics=[asked(name=NAME.topic, partitions=[part])]
    )
    broker = SimpleNamespace(replicas=world.replicas, missing_partition=lambda name: 3)
    # Of the replicas that are named, one is a broker that has proven to be that one.
    context = SimpleNamespace(broker=broker, version=version, speaks_for=lambda broker_id: broker_id == FOLLOWER)
    response = at_once(list_offsets.handle(request, context))  # type: ignore[arg-type]
    (found,) = response.topics[0].partitions
    return found.error_code, found.offset


@pytest.mark.parametrize("isolation", [0, 1])
@pytest.mark.parametrize(("version", "code"), [(1, 5), (4, 5), (5, 78), (11, 78)])
def test_end_is_not_known_before_the_watermark_reaches_the_epoch(elected, version, code, isolation):
    assert ask(elected, LATEST, version, isolation=isolation) == (code, -1)


@pytest.mark.parametrize(("timestamp", "version", "code"), [(30, 4, 5), (30, 5, 78), (50, 10, 78), (51, 10, 78), (NEWEST, 7, 78)])
def test_time_behind_the_watermark_is_not_known_either(elected, timestamp, version, code):
    assert ask(elected, timestamp, version) == (code, -1)


def test_what_is_surely_committed_is_told(elected):
    assert ask(elected, EARLIEST) == (0, 0)
    assert ask(elected, 10) == (0, 0)
    assert ask(elected, 20) == (0, 1)


@pytest.mark.parametrize("replica_id", [FOLLOWER, TOOL])
def test_brokers_and_tools_see_all_of_the_log(elected, replica_id):
    assert ask(elected, LATEST, replica_id=replica_id) == (0, 5)
    assert ask(elected, 50, replica_id=replica_id) == (0, 4)


def test_one_that_only_says_it_is_a_replica_is_told_what_a_consumer_is_told(elected):
    assert ask(elected, LATEST, replica_id=1) == (78, -1)
    assert ask(elected, 50, replica_id=1) == (78, -1)
    assert ask(elected, 20, replica_id=1) == (0, 1)


def test_end_is_told_when_the_followers_have_come(elected):
    leadership = elected.partition.leadership
    assert leadership is not None
    leadership.fetched(2, 4, 0, elected.clock.now_ms())
    assert ask(elected, LATEST) == (78, -1)
    leadership.fetched(2, 5, 0, elected.clock.now_ms())
    assert ask(elected, LATEST) == (0, 5)
    # What is appended in this epoch holds up nobody.
    elected.replicas.append(NAME, produced(timestamp=60))
    assert ask(elected, LATEST) == (0, 5)
    assert ask(elected, 60) == (0, -1)
    assert ask(elected, NEWEST) == (0, -1)
