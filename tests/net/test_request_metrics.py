"""What requests cost: counted one by one, measured as often as is cheap."""

from __future__ import annotations

import time

import pytest

from milepost.metrics.registry import Registry
from milepost.net import request_metrics
from milepost.net.request_metrics import RequestMeter, RequestMetrics, RequestMetricsTable
from tests.net.echo_server import Client, echo_server
from tests.waiting import until

modes = pytest.mark.parametrize("pooled", [False, True], ids=["inline", "pooled"])


class Stamps:
    """A request as far as its meter looks at it."""

    throttle_seconds = 0.0

    def __init__(self, received=10.0, dequeued=10.001, handled=0.0, answered=10.003, taken=10.003, size=100):
        self.received_at, self.dequeued_at, self.handled_at = received, dequeued, handled
        self.answered_at, self.taken_at, self.size = answered, taken, size


def metrics_of(table: RequestMetricsTable) -> dict[str, dict[tuple[str, ...], object]]:
    registry = Registry()
    table.register(registry)
    return {
        metric.name.name: {tuple(value for _, value in labels): value for labels, value in metric.samples()}
        for metric in registry
    }


def test_parts_of_a_requests_way_are_kept_apart_and_add_up():
    table = RequestMetricsTable()
    table.meter("Fetch", 11).count(Stamps(10.0, 10.001, 10.003, 10.010, 10.0125), 10.020)
    found = metrics_of(table)
    totals = {name: found[name]["Fetch",].total for name in request_metrics.TIMES}
    assert totals == pytest.approx(
        {
            "RequestQueueTimeMs": 1.0,
            "LocalTimeMs": 2.0,
            "RemoteTimeMs": 7.0,
            "ResponseQueueTimeMs": 2.5,
            "ResponseSendTimeMs": 7.5,
            "TotalTimeMs": 20.0,
            "ThrottleTimeMs": 0.0,
        }
    )
    assert found["RequestBytes"]["Fetch",].total == 100


def test_request_that_did_not_wait_was_handled_until_it_was_answered():
    table = RequestMetricsTable()
    table.meter("Produce", 9).count(Stamps(10.0, 10.0, 0.0, 10.004, 10.004), 10.005)
    found = metrics_of(table)
    assert found["LocalTimeMs"]["Produce",].total == pytest.approx(4.0)
    assert found["RemoteTimeMs"]["Produce",].total == 0.0


def test_requests_are_counted_by_version():
    table = RequestMetricsTable()
    for version, times in ((9, 3), (7, 1)):
        for _ in range(times):
            table.meter("Produce", version).count(Stamps(), 10.004)
    assert metrics_of(table)["RequestsPerSec"] == {("Produce", "7"): 1, ("Produce", "9"): 3}


def test_fetch_counts_as_a_fetch_and_as_a_consumers():
    table = RequestMetricsTable()
    table.meter("Fetch", 13, "FetchConsumer").count(Stamps(), 10.004)
    table.meter("Fetch", 13, "FetchFollower").count(Stamps(), 10.004)
    found = metrics_of(table)
    assert found["RequestsPerSec"] == {("Fetch", "13"): 2, ("FetchConsumer", "13"): 1, ("FetchFollower", "13"): 1}
    assert {name: times.count for (name,), times in found["TotalTimeMs"].items()} == {
        "Fetch": 2,
        "FetchConsumer": 1,
        "FetchFollower": 1,
    }


def test_errors_are_counted_by_their_names():
    table = RequestMetricsTable()
    meter = table.meter("Produce", 9)
    meter.errors[3] += 2
    meter.errors[0] += 1
    meter.errors[12345] += 1
    meter.successes += 4
    assert metrics_of(table)["ErrorsPerSec"] == {
        ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("Produce", "NONE"): 5,
        ("Produce", "12345"): 1,
    }


def test_time_under_a_throttle_is_noted():
    table = RequestMetricsTable()
    request = Stamps()
    request.throttle_seconds = 1.5
    table.meter("Produce", 9).count(request, 10.004)
    throttle = metrics_of(table)["ThrottleTimeMs"]["Produce",]
    assert (throttle.count, throttle.total) == (1, 1500.0)


class Busy:
    """A meter that is asked for so many requests a second."""

    def __init__(self, per_second: int):
        self.now, self.step = 100.0, 1 / per_second
        self.metrics = RequestMetrics("Produce")
        self.meter = RequestMeter(9, (self.metrics,), lambda: self.now)

    def answer(self, count: int, seconds: float = 0.0001) -> None:
        for _ in range(count):
            self.now += self.step
            self.meter.count(Stamps(self.now - seconds, self.now - seconds, 0.0, self.now, self.now), self.now)


def test_requests_that_come_now_and_then_are_all_measured():
    busy = Busy(per_second=500)
    busy.answer(5000)
    busy.meter.settle()
    assert busy.metrics.times["TotalTimeMs"].count == busy.meter.requests == 5000


def test_of_requests_that_come_by_the_thousand_one_stands_for_some_and_none_is_forgotten():
    busy = Busy(per_second=100_000)
    busy.answer(2000)
    measured = len(busy.meter._measured)
    busy.answer(1600)
    assert len(busy.meter._measured) - measured == 100
    assert busy.meter.requests == 3600
    busy.meter.settle()
    times = busy.metrics.times["TotalTimeMs"]
    assert times.count == pytest.approx(3600, abs=15)
    assert times.total / times.count == pytest.approx(0.1)


def test_request_that_took_long_is_measured_whoever_stands_for_it():
    busy = Busy(per_second=100_000)
    busy.answer(2000)
    busy.answer(5)
    busy.answer(1, seconds=0.25)
    busy.meter.settle()
    assert busy.metrics.times["TotalTimeMs"].quantiles([1]) == pytest.approx([250.0])
    assert busy.meter.requests == 2006


def test_pipelined_requests_count_for_all_of_them():
    metrics = RequestMetrics("Produce")
    meter = RequestMeter(9, (metrics,))
    meter.count_pipelined(4, 800, 10.0, 10.004, 10.006)
    meter.settle()
    assert meter.requests == 4
    assert metrics.times["LocalTimeMs"].total == pytest.approx(4.0), "each has its share of the time it took to handle them"
    assert metrics.times["TotalTimeMs"].total == pytest.approx(4 * 6.0)
    assert metrics.sizes.total == 4 * 200


def test_pipelined_requests_that_come_by_the_thousand_stand_for_each_other():
    busy = Busy(per_second=100_000)
    busy.answer(2000)
    measured, counted = len(busy.meter._measured), busy.meter.requests
    for _ in range(100):
        busy.meter.count_pipelined(2, 400, busy.now, busy.now + 0.00001, busy.now + 0.00002)
    assert len(busy.meter._measured) - measured == pytest.approx(100 * 2 / 16, abs=1)
    busy.meter.count_pipelined(2, 400, busy.now, busy.now + 0.5, busy.now + 0.5)
    assert busy.meter.requests - counted == 202
    busy.meter.settle()
    assert busy.metrics.times["TotalTimeMs"].quantiles([1]) == pytest.approx([500.0])


# In a server.


@modes
def test_server_counts_what_was_answered_closed_and_left_without_an_answer(pooled):
    table = RequestMetricsTable()
    with echo_server(pooled=pooled, meter=table.meter("Echo", 0)) as server:
        client = Client(server.port)
        client.send(b"one", b"silent two", b"later three", b"four")
        assert [client.read() for _ in range(3)] == [b"one", b"later three", b"four"]
        assert client.ask(b"close me") is None
        client.close()
    found = metrics_of(table)
    assert found["RequestsPerSec"] == {("Echo", "0"): 5}
    assert found["TotalTimeMs"]["Echo",].count == 5
    assert found["RemoteTimeMs"]["Echo",].quantiles([1])[0] >= 50, "one was answered 50 ms after its handler was done"


def test_time_in_the_queue_of_a_pool_is_counted():
    table = RequestMetricsTable()
    with echo_server(pooled=True, num_io_threads=1, meter=table.meter("Echo", 0)) as server:
        first, second = Client(server.port), Client(server.port)
        first.send(b"hold on")
        until(lambda: server.handled)
        second.send(b"two")
        until(lambda: len(server.server.data_requests))
        time.sleep(0.03)
        server.release.set()
        assert second.read() == b"two"
        first.close()
        second.close()
    assert metrics_of(table)["RequestQueueTimeMs"]["Echo",].quantiles([1])[0] > 20
