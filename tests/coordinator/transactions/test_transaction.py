"""One transactional id: which steps it may take, and whom it fences."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from milepost.coordinator.transactions.transaction import ENTERED_FROM, Producer, TransactionMetadata
from milepost.errors import InvalidArgument
from milepost.protocol.error_codes import ErrorCode
from milepost.record.internal_topics.transaction_state import TransactionState
from milepost.topic_partition import TopicPartition

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, FENCE = TransactionState
P0 = TopicPartition("orders", 0)
NOW = 1_700_000_001_000


def metadata(state: TransactionState = EMPTY, epoch: int = 5, **others: object) -> TransactionMetadata:
    fields: dict[str, object] = {"last_update_timestamp": 1_700_000_000_000, "timeout_ms": 60_000, "previous_producer_id": 77}
    if state in (ONGOING, PREPARE_COMMIT, PREPARE_ABORT):
        fields["partitions"] = frozenset({P0})
        fields["start_timestamp"] = 1_700_000_000_000
    return TransactionMetadata(
        transactional_id="tx",
        producer_id=77,
        producer_epoch=epoch,
        state=state,
        **(fields | others),  # type: ignore[arg-type]
    )


def allocate() -> int:
    return 78


def no_allocation() -> int:
    raise AssertionError("no producer id is needed here")


# The state table.


def test_the_table_of_legal_transitions_is_kafkas_with_version_2s_empty_aborts():
    legal = {int(to): sorted(map(int, froms)) for to, froms in ENTERED_FROM.items()}
    assert legal == {
        0: [0, 4, 5],
        1: [0, 1, 4, 5],
        2: [1],
        3: [0, 1, 4, 5, 7],
        4: [2],
        5: [3],
        6: [0, 4, 5],
        7: [1],
    }


@pytest.mark.parametrize("state", [EMPTY, ONGOING, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_completing_what_was_not_prepared_is_a_mistake_with_a_sentence(state):
    with pytest.raises(InvalidArgument, match=f"transactional id 'tx' cannot go from {state.kafka_name} to CompleteAbort"):
        metadata(state).complete(NOW)


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_an_ending_transaction_takes_no_partitions(state):
    with pytest.raises(InvalidArgument, match="to Ongoing"):
        metadata(state).add([P0], 0, NOW)


# InitProducerId.


def initialize(current: TransactionMetadata, known: Producer | None = None, version: int = 2, ids=no_allocation):
    return current.initialize(30_000, known, version, ids, NOW)


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_init_raises_the_epoch_and_starts_from_nothing(state):
    next_one = initialize(metadata(state, start_timestamp=5))
    assert (next_one.state, next_one.producer_id, next_one.producer_epoch) == (EMPTY, 77, 6)
    assert (next_one.timeout_ms, next_one.start_timestamp, next_one.last_update_timestamp) == (30_000, -1, NOW)
    assert (next_one.previous_producer_id, next_one.last_producer_epoch, next_one.partitions) == (77, -1, frozenset())


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_init_waits_for_an_ending_transaction(state):
    assert initialize(metadata(state)) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_init_aborts_an_open_transaction_and_raises_the_epoch_once():
    aborting = initialize(metadata(ONGOING))
    assert (aborting.state, aborting.producer_epoch, aborting.partitions) == (PREPARE_ABORT, 6, frozenset({P0}))


def test_a_recovering_producer_gets_the_next_epoch():
    next_one = initialize(metadata(), Producer(77, 5))
    assert (next_one.producer_epoch, next_one.last_producer_epoch) == (6, 5)


def test_a_recovering_producer_that_missed_its_answer_gets_it_again():
    first = initialize(metadata(), Producer(77, 5))
    again = initialize(first, Producer(77, 5))
    assert (again.producer_epoch, again.last_producer_epoch) == (6, 5)


def test_after_somebody_else_has_initialized_a_recovering_producer_is_fenced():
    taken = initialize(initialize(metadata(), Producer(77, 5)))
    assert initialize(taken, Producer(77, 5)) == ErrorCode.PRODUCER_FENCED
    assert initialize(taken, Producer(77, 6)) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("known", [Producer(76, 5), Producer(77, 4), Producer(77, 6)])
def test_a_recovering_producer_with_a_wrong_id_or_epoch_is_fenced(known):
    assert initialize(metadata(), known) == ErrorCode.PRODUCER_FENCED


def test_an_id_that_was_forgotten_takes_any_recovering_producer():
    fresh = metadata(epoch=-1)
    next_one = initialize(fresh, Producer(3, 9))
    assert (next_one.producer_id, next_one.producer_epoch) == (77, 0)


@pytest.mark.parametrize("epoch", [32766, 32767])
def test_an_exhausted_epoch_brings_a_new_producer_id(epoch):
    next_one = initialize(metadata(epoch=epoch), ids=allocate)
    assert (next_one.producer_id, next_one.producer_epoch, next_one.previous_producer_id) == (78, 0, 77)


def test_epoch_32766_is_still_given_out():
    assert initialize(metadata(epoch=32765)).producer_epoch == 32766


def test_a_recovering_producer_that_missed_its_new_id_gets_it_again():
    rotated = initialize(metadata(epoch=32766), Producer(77, 32766), ids=allocate)
    again = initialize(rotated, Producer(77, 32766))
    assert (again.producer_id, again.producer_epoch) == (78, 0)


def test_only_the_last_epoch_of_the_previous_id_may_recover():
    rotated = initialize(metadata(epoch=32766), Producer(77, 32766), ids=allocate)
    assert initialize(rotated, Producer(77, 32765)) == ErrorCode.PRODUCER_FENCED


# EndTxn 0 to 4.

COMMIT, ABORT = True, False


def end(current: TransactionMetadata, epoch: int, committed: bool, version: int, ids=no_allocation):
    return current.end(Producer(77, epoch), committed, version, ids, NOW)


@pytest.mark.parametrize(("committed", "state"), [(COMMIT, PREPARE_COMMIT), (ABORT, PREPARE_ABORT)])
def test_version_1_ends_with_the_same_epoch(committed, state):
    ending = end(metadata(ONGOING, client_version=2), 5, committed, 0)
    assert (ending.state, ending.producer_epoch, ending.partitions, ending.client_version) == (state, 5, frozenset({P0}), 0)
    assert ending.start_timestamp == 1_700_000_000_000


@pytest.mark.parametrize(
    ("state", "committed", "answer"),
    [
        (EMPTY, COMMIT, ErrorCode.INVALID_TXN_STATE),
        (EMPTY, ABORT, ErrorCode.INVALID_TXN_STATE),
        (PREPARE_COMMIT, COMMIT, ErrorCode.CONCURRENT_TRANSACTIONS),
        (PREPARE_COMMIT, ABORT, ErrorCode.INVALID_TXN_STATE),
        (PREPARE_ABORT, COMMIT, ErrorCode.INVALID_TXN_STATE),
        (PREPARE_ABORT, ABORT, ErrorCode.CONCURRENT_TRANSACTIONS),
        (COMPLETE_COMMIT, COMMIT, ErrorCode.NONE),
        (COMPLETE_COMMIT, ABORT, ErrorCode.INVALID_TXN_STATE),
        (COMPLETE_ABORT, COMMIT, ErrorCode.INVALID_TXN_STATE),
        (COMPLETE_ABORT, ABORT, ErrorCode.NONE),
    ],
)
def test_version_1_repeats_only_what_has_happened(state, committed, answer):
    assert end(metadata(state), 5, committed, 0) == answer


@pytest.mark.parametrize("state", [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_ABORT])
@pytest.mark.parametrize("epoch", [4, 6])
def test_version_1_fences_every_other_epoch(state, epoch):
    assert end(metadata(state), epoch, ABORT, 0) == ErrorCode.PRODUCER_FENCED


# EndTxn 5: the table of the module, with the epoch of the metadata at 5.

FENCED, WRONG, DONE, BUSY = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.NONE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
BUMP_ABORT, BUMP_COMMIT = (PREPARE_ABORT, 6), (PREPARE_COMMIT, 6)


@pytest.mark.parametrize(
    ("state", "abort_retry", "abort_now", "commit_retry", "commit_now"),
    [
        (EMPTY, FENCED, BUMP_ABORT, FENCED, WRONG),
        (ONGOING, FENCED, BUMP_ABORT, FENCED, BUMP_COMMIT),
        (PREPARE_COMMIT, WRONG, FENCED, BUSY, FENCED),
        (PREPARE_ABORT, BUSY, FENCED, WRONG, FENCED),
        (COMPLETE_COMMIT, WRONG, BUMP_ABORT, DONE, WRONG),
        (COMPLETE_ABORT, DONE, BUMP_ABORT, WRONG, WRONG),
    ],
)
def test_version_2_tells_a_repeated_end_from_the_next_by_its_epoch(state, abort_retry, abort_now, commit_retry, commit_now):
    expected = [abort_retry, abort_now, commit_retry, commit_now]
    requests = [(4, ABORT), (5, ABORT), (4, COMMIT), (5, COMMIT)]
    answers = []
    for epoch, committed in requests:
        answer = end(metadata(state), epoch, committed, 2)
        answers.append(answer if isinstance(answer, ErrorCode) else (answer.state, answer.producer_epoch))
    assert answers == expected


@pytest.mark.parametrize("state", [EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT])
@pytest.mark.parametrize("epoch", [3, 6, 32766])
def test_version_2_fences_every_other_epoch(state, epoch):
    assert end(metadata(state), epoch, ABORT, 2) == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT])
def test_another_producer_id_has_no_mapping(state, version):
    answer = metadata(state).end(Producer(76, 5), COMMIT, version, no_allocation, NOW)
    assert answer == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_an_abort_without_partitions_begins_when_it_ends(state):
    ending = end(metadata(state), 5, ABORT, 2)
    assert (ending.start_timestamp, ending.partitions) == (NOW, frozenset())
    assert ending.complete(NOW).state is COMPLETE_ABORT


def test_version_2_at_the_last_epoch_ends_with_32767_and_goes_on_with_a_new_id():
    ending = end(metadata(ONGOING, epoch=32766), 32766, COMMIT, 2, allocate)
    assert (ending.producer_id, ending.producer_epoch, ending.next_producer_id) == (77, 32767, 78)
    assert ending.producer_after_end == Producer(78, 0)
    ended = ending.complete(NOW)
    assert (ended.producer_id, ended.producer_epoch, ended.previous_producer_id, ended.next_producer_id) == (78, 0, 77, -1)
    assert ended.state is COMPLETE_COMMIT


def test_the_end_that_brought_a_new_id_may_be_repeated_by_the_old_one():
    ended = end(metadata(ONGOING, epoch=32766), 32766, COMMIT, 2, allocate).complete(NOW)
    assert end(ended, 32766, COMMIT, 2) == ErrorCode.NONE
    assert end(ended, 32766, ABORT, 2) == ErrorCode.INVALID_TXN_STATE
    assert end(ended, 32765, COMMIT, 2) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_version_1_never_changes_the_producer_id_at_the_end():
    ended = end(metadata(ONGOING, epoch=32766), 32766, COMMIT, 0).complete(NOW)
    assert (ended.producer_id, ended.producer_epoch) == (77, 32766)


# Fencing by the coordinator.


def test_fencing_raises_the_epoch_once_in_either_version():
    for version in (0, 1, 2):
        fenced = metadata(ONGOING).fence(version, no_allocation, NOW)
        assert (fenced.state, fenced.producer_epoch) == (PREPARE_ABORT, 6)


def test_fencing_at_the_last_epoch_brings_a_new_id_with_version_2_and_leaves_32767_before():
    fenced = metadata(ONGOING, epoch=32766).fence(2, allocate, NOW)
    assert (fenced.producer_epoch, fenced.complete(NOW).producer_after_end) == (32767, Producer(78, 0))
    older = metadata(ONGOING, epoch=32766).fence(0, no_allocation, NOW).complete(NOW)
    assert older.producer_epoch == 32767
    assert initialize(older, ids=allocate).producer_id == 78


def test_every_step_remembers_the_producer_id_before_it():
    current = metadata(EMPTY, previous_producer_id=1)
    assert current.add([P0], 2, NOW).previous_producer_id == 77


# Time.


def test_a_transaction_is_timed_out_when_more_than_its_timeout_has_passed():
    current = metadata(ONGOING)
    assert not current.is_timed_out(1_700_000_060_000)
    assert current.is_timed_out(1_700_000_060_001)


@pytest.mark.parametrize("state", [EMPTY, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_only_an_open_transaction_times_out(state):
    assert not replace(metadata(state), start_timestamp=0).is_timed_out(NOW)


@pytest.mark.parametrize("state", [EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT])
def test_a_resting_id_expires_at_its_time(state):
    assert not metadata(state).is_expired(1_700_000_000_999, 1000)
    assert metadata(state).is_expired(1_700_000_001_000, 1000)


@pytest.mark.parametrize("state", [ONGOING, PREPARE_COMMIT, PREPARE_ABORT])
def test_an_id_that_is_busy_never_expires(state):
    assert not metadata(state).is_expired(NOW * 2, 1000)


def test_no_sequence_of_requests_ever_lowers_the_epoch_or_hands_out_32767():
    """Every path of five steps from an epoch near the end, over all requests of both versions."""
    ids = itertools.count(100)
    requests = list(itertools.product(["init", "add", "end"], [COMMIT, ABORT], [0, 2]))
    frontier = [metadata(EMPTY, epoch=32764)]
    for _ in range(5):
        following = {}
        for current in frontier:
            producer = Producer(current.producer_id, current.producer_epoch)
            for request, committed, version in requests:
                if request == "init":
                    answer = current.initialize(1000, None, version, lambda: next(ids), NOW)
                elif request == "add":
                    answer = (
                        ErrorCode.CONCURRENT_TRANSACTIONS if "PREPARE" in current.state.name else current.add([P0], version, NOW)
                    )
                else:
                    answer = current.end(producer, committed, version, lambda: next(ids), NOW)
                if isinstance(answer, ErrorCode):
                    continue
                if answer.state in (PREPARE_COMMIT, PREPARE_ABORT):
                    answer = answer.complete(NOW)
                    assert answer.producer_epoch >= current.producer_epoch or answer.producer_id != current.producer_id
                elif answer.state is EMPTY:
                    assert answer.producer_epoch <= 32766
                    assert answer.producer_id != current.producer_id or answer.producer_epoch == current.producer_epoch + 1
                key = (answer.state, answer.producer_epoch, answer.producer_id == current.producer_id, answer.client_version)
                following[key] = answer
        frontier = list(following.values())
    assert {current.producer_epoch for current in frontier} >= {0, 32766}
