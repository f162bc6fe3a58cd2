from __future__ import annotations

from milepost.client.retrying import Retries, failed, is_worth_another_try
from milepost.errors import BrokerUnavailable, InvalidArgument, RequestFailed


def test_pauses_double_up_to_the_longest_and_attempts_end():
    pauses: list[float] = []
    retries = Retries(attempts=6, first_pause=0.1, longest_pause=0.5, sleep=pauses.append, monotonic=lambda: 0.0)
    assert list(retries.rounds()) == [False, False, False, False, False, True]
    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5]


def test_no_attempt_begins_after_the_timeout():
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    retries = Retries(attempts=100, first_pause=1.0, longest_pause=1.0, timeout=3.0, sleep=sleep, monotonic=lambda: now[0])
    assert list(retries.rounds()) == [False, False, True]


def test_fewer_attempts_can_be_asked_for_and_not_more():
    retries = Retries(attempts=3, sleep=lambda seconds: None)
    assert len(list(retries.rounds(2))) == 2
    assert len(list(retries.rounds(50))) == 3


def test_lost_connections_and_passing_errors_are_worth_another_try():
    assert is_worth_another_try(BrokerUnavailable("gone"))
    assert is_worth_another_try(RequestFailed("moved", 6))
    assert not is_worth_another_try(RequestFailed("there already", 36))
    assert not is_worth_another_try(InvalidArgument("nonsense"))


def test_sentence_has_the_name_the_number_and_what_the_broker_says():
    error = failed("topic t", 36, "Topic 't' already exists.")
    assert str(error) == "topic t: the broker answers TOPIC_ALREADY_EXISTS (36): Topic 't' already exists."
    assert (error.code, error.exit_code) == (36, 4)


def test_code_from_the_future_and_a_message_that_only_repeats_the_name():
    assert str(failed("x", 999)) == "x: the broker answers error 999 (999)"
    assert str(failed("x", 6, "NOT_LEADER_OR_FOLLOWER")) == "x: the broker answers NOT_LEADER_OR_FOLLOWER (6)"


def test_message_of_a_broker_cannot_move_the_cursor():
    assert str(failed("x", 42, "\x1b[2Jgone\n")) == "x: the broker answers INVALID_REQUEST (42): \\x1b[2Jgone\\x0a"
