"""What a producer sent behind a batch that was refused for a moment is refused alike: it is never told of a gap that we made."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.clock import ManualClock
from milepost.errors import MilepostError, NotEnoughReplicas, NotLeaderOrFollower, OutOfOrderSequence
from milepost.log.open import open_log
from milepost.metrics.topic_metrics import TopicMetrics
from milepost.record.batch import RecordBatch
from milepost.record.sequence import MAX_SEQUENCE
from milepost.replica.leadership import LeaderState
from milepost.replica.partition import Partition
from milepost.replica.retriable_rejections import MOST_PRODUCERS, OVERTAKING_MS, is_behind
from tests.log.making import idempotent, placed

STATE = LeaderState(0, frozenset({1, 2}), (1, 2), 0)


class Unobserved:
    def appended(self, partition: Partition, size: int, records: int) -> None: ...

    def refused(self, partition: Partition, data: Any, error: MilepostError) -> None: ...


class Changer:
    def propose(self, *proposal: Any) -> None: ...

    def may_join(self, broker_id: int) -> bool:
        return True


@pytest.fixture
def partition(tmp_path):
    with open_log(str(tmp_path / "visits-0"), mode="a", clock=ManualClock(1_000_000)) as log:
        partition = Partition(log, bytes(16), 1, TopicMetrics(), Unobserved())
        partition.lead(STATE, Changer(), 10_000)
        yield partition


def produce(partition: Partition, sequence: int, **fields: Any) -> int:
    """The offset."""
    return partition.append(idempotent(sequence, 1, **fields)).first_offset


def refuse(partition: Partition, sequence: int, **fields: Any) -> None:
    with pytest.raises(NotLeaderOrFollower):
        produce(partition, sequence, **fields)


def test_batches_behind_one_that_a_suspended_leader_refused_wait_for_it(partition):
    produce(partition, 0)
    partition.suspend()
    refuse(partition, 1)
    partition.confirm(STATE)
    refuse(partition, 2)
    refuse(partition, 3)
    assert [produce(partition, number) for number in (1, 2, 3)] == [1, 2, 3]


def test_asking_before_it_is_refused_costs_no_turn(partition):
    produce(partition, 0)
    partition.suspend()
    refuse(partition, 1)
    partition.confirm(STATE)
    for number in (2, 3, 4, 5):
        with pytest.raises(NotLeaderOrFollower):
            partition._refused.check(RecordBatch(idempotent(number, 1)))
        refuse(partition, number)
    assert [produce(partition, number) for number in (1, 2, 3, 4, 5)] == [1, 2, 3, 4, 5]


def test_those_that_were_refused_while_it_was_suspended_count_too(partition):
    produce(partition, 0)
    partition.suspend()
    for number in (1, 2, 3):
        refuse(partition, number)
    partition.confirm(STATE)
    refuse(partition, 4)
    refuse(partition, 5)
    with pytest.raises(OutOfOrderSequence):
        produce(partition, 6)


def test_without_a_refusal_a_gap_is_a_gap(partition):
    produce(partition, 0)
    with pytest.raises(OutOfOrderSequence):
        produce(partition, 2)


def test_no_more_are_refused_than_can_have_been_on_their_way(partition):
    produce(partition, 0)
    partition.suspend()
    refuse(partition, 1)
    partition.confirm(STATE)
    for number in (2, 3, 4, 5):
        refuse(partition, number)
    with pytest.raises(OutOfOrderSequence):
        produce(partition, 6)


def test_first_batch_of_a_producer_that_was_refused_comes_first_all_the_same(partition):
    partition.suspend()
    refuse(partition, 0)
    partition.confirm(STATE)
    refuse(partition, 1)
    assert [produce(partition, number) for number in (0, 1)] == [0, 1]


def test_batch_behind_one_refused_for_want_of_replicas_gets_the_same_error(partition):
    produce(partition, 0)
    partition.note_refused(idempotent(1, 1), NotEnoughReplicas("1 replicas are in sync"))
    with pytest.raises(NotEnoughReplicas, match="sequence 1 must come first"):
        produce(partition, 2)


def test_what_came_by_replication_meanwhile_is_not_waited_for(partition):
    produce(partition, 0)
    partition.follow(2, STATE._replace(leader_epoch=1))
    refuse(partition, 1)
    refuse(partition, 2)
    partition.log.append_as_follower(placed(idempotent(1), 1, leader_epoch=1))
    partition.lead(STATE._replace(leader_epoch=2), Changer(), 10_000)
    assert produce(partition, 2) == 2


def test_batch_that_overtook_those_at_the_leader_before_waits_for_them(partition):
    produce(partition, 0)
    partition.lead(STATE._replace(leader_epoch=1), Changer(), 10_000)
    refuse(partition, 3)
    refuse(partition, 4)
    assert [produce(partition, number) for number in (1, 2, 3, 4)] == [1, 2, 3, 4]
    with pytest.raises(OutOfOrderSequence):
        produce(partition, 9)


def test_after_a_while_nothing_is_on_its_way_to_the_leader_before(partition):
    produce(partition, 0)
    partition.lead(STATE._replace(leader_epoch=1), Changer(), 10_000)
    refuse(partition, 2)
    partition.log.clock.advance(OVERTAKING_MS)
    with pytest.raises(OutOfOrderSequence):
        produce(partition, 2)


def test_sequence_that_goes_back_overtakes_nobody(partition):
    for number in range(8):
        produce(partition, number)
    partition.lead(STATE._replace(leader_epoch=1), Changer(), 10_000)
    with pytest.raises(OutOfOrderSequence):
        produce(partition, 1)


def test_other_producers_and_epochs_go_on(partition):
    produce(partition, 0)
    partition.suspend()
    refuse(partition, 1)
    partition.confirm(STATE)
    assert produce(partition, 0, producer_id=77) == 1
    assert produce(partition, 0, epoch=1) == 2
    assert produce(partition, 1, epoch=1) == 3


def test_duplicate_of_an_earlier_batch_is_answered_as_ever(partition):
    produce(partition, 0)
    partition.suspend()
    refuse(partition, 1)
    partition.confirm(STATE)
    assert produce(partition, 0) == 0


def test_plain_batches_are_not_remembered_and_of_many_producers_the_oldest_are_forgotten(partition):
    batches = partition._refused
    error = NotLeaderOrFollower("somebody else does")
    batches.note(RecordBatch(idempotent(-1, 1, producer_id=-1, epoch=-1)), error)
    assert len(batches.first) == 0
    for number in range(MOST_PRODUCERS + 5):
        batches.note(RecordBatch(idempotent(0, 1, producer_id=number)), error)
    assert len(batches.first) == MOST_PRODUCERS


@pytest.mark.parametrize(("sequence", "other", "behind"), [(2, 1, True), (1, 1, False), (0, 1, False), (0, MAX_SEQUENCE, True)])
def test_sequences_go_round(sequence, other, behind):
    assert is_behind(sequence, other) is behind
