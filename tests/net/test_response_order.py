"""Requests that were let go: those behind them are handled meanwhile, and every answer comes in its turn."""

from __future__ import annotations

import pytest

from milepost.net.response_order import MOST_PENDING
from tests.net.echo_server import Client, echo_server


def test_request_behind_one_that_was_let_go_is_handled_first_and_answered_second():
    with echo_server() as server:
        client = Client(server.port)
        client.send(b"aside 1", b"quick 1", b"aside 2", b"aside 3", b"quick 2")
        assert [client.read() for _ in range(5)] == [b"aside 1", b"quick 1", b"aside 2", b"aside 3", b"quick 2"]
        assert server.log == [
            *("handled aside 1", "handled quick 1", "answered quick 1", "answered aside 1"),
            *(
                "handled aside 2",
                "handled aside 3",
                "handled quick 2",
                "answered quick 2",
                "answered aside 2",
                "answered aside 3",
            ),
        ]
        client.close()


def test_later_one_that_is_answered_first_waits_for_those_before_it():
    with echo_server() as server:
        client = Client(server.port)
        client.send(b"aside 1", b"hasty 2", b"hasty 3")
        assert [client.read() for _ in range(3)] == [b"aside 1", b"hasty 2", b"hasty 3"]
        assert server.log[-1] == "answered aside 1"
        client.close()


def test_so_many_are_let_go_and_the_next_one_waits():
    with echo_server() as server:
        client = Client(server.port)
        words = [b"aside %d" % number for number in range(2 * MOST_PENDING + 10)]
        client.send(*words)
        assert [client.read() for _ in words] == words
        assert server.log.index("answered aside 0") == MOST_PENDING + 1
        client.close()


def test_connection_that_ends_while_it_is_owed_answers_troubles_nobody():
    with echo_server() as server:
        client = Client(server.port)
        client.send(b"aside 1", b"close", b"aside 2")
        assert client.read() is None
        client.close()
        other = Client(server.port)
        assert other.ask(b"aside 3") == b"aside 3"
        assert "handled aside 2" not in server.log
        other.close()


@pytest.mark.parametrize("word", [b"silent", b"throttled 0.1"])
def test_what_follows_is_as_ever(word):
    with echo_server() as server:
        client = Client(server.port)
        client.send(b"aside 1", word, b"quick")
        expected = [b"aside 1", b"quick"] if word == b"silent" else [b"aside 1", word, b"quick"]
        assert [client.read() for _ in expected] == expected
        client.close()


def test_in_a_pool_requests_are_handled_one_at_a_time():
    with echo_server(pooled=True) as server:
        client = Client(server.port)
        client.send(b"aside 1", b"quick 1")
        assert [client.read(), client.read()] == [b"aside 1", b"quick 1"]
        assert server.log == ["handled aside 1", "answered aside 1", "handled quick 1", "answered quick 1"]
        client.close()
