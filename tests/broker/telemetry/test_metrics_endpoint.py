"""`/metrics` and `/healthz` of a broker: where they are served, what they say, and that nobody waits for them."""

from __future__ import annotations

import json
import logging
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from milepost.broker.telemetry import metrics_endpoint
from milepost.client.cluster import Cluster
from milepost.client.producer import Producer
from milepost.errors import PortUnavailable
from milepost.metrics import prometheus
from milepost.metrics.names import own
from tests.broker.scraping import parse, scrape
from tests.broker.test_serve import COMMAND, refused, serving
from tests.broker.topics import create, delete, produce, wanted
from tests.broker.wire import Wire
from tests.waiting import PATIENCE, PROCESS_PATIENCE, until

ON = {"milepost.metrics.port": "0"}


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_without_a_port_nothing_is_served(brokers):
    assert brokers.start().metrics_endpoint is None


def test_loopback_unless_another_address_is_given(brokers):
    broker = brokers.start(ON)
    assert broker.metrics_endpoint.url.startswith("http://127.0.0.1:")
    other = brokers.start({**ON, "milepost.metrics.host": "127.0.0.2", "log.dirs": f"{broker.config.directories[0]}-2"})
    assert other.metrics_endpoint.url.startswith("http://127.0.0.2:")
    assert get(other.metrics_endpoint.url)[0] == 200


def test_health_is_ok_while_a_data_directory_can_be_used(brokers):
    broker = brokers.start(ON)
    health = broker.metrics_endpoint.url.replace("/metrics", "/healthz")
    assert get(health) == (200, "ok\n")
    directories, broker.logs.directories = broker.logs.directories, []
    broker.logs.offline["/data/a"] = "/data/a: Input/output error"
    assert get(health) == (503, "no data directory\noffline: /data/a: Input/output error\n")
    broker.logs.directories = directories
    assert get(health) == (200, "ok\noffline: /data/a: Input/output error\n")


def test_other_paths_say_what_there_is(brokers):
    url = brokers.start(ON).metrics_endpoint.url
    assert get(f"{url}/more") == (404, "there is nothing here; there is /metrics, /healthz\n")


def test_broker_answers_between_the_slices_of_a_long_text(brokers, monkeypatch):
    monkeypatch.setattr(metrics_endpoint, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(metrics_endpoint, "PAUSE_SECONDS", 0.003)
    broker = brokers.start(ON)
    pieces, is_enough = prometheus.pieces, threading.Event()

    def long_text(*arguments: Any) -> Iterator[str]:
        while not is_enough.is_set():
            yield "\n"
        yield from pieces(*arguments)

    monkeypatch.setattr(prometheus, "pieces", long_text)
    with Wire(broker.bootstrap_servers) as wire, ThreadPoolExecutor(2) as pool:
        create(wire, wanted("t", 100))
        scraping = [pool.submit(get, broker.metrics_endpoint.url) for _ in range(2)]
        try:
            until(lambda: broker.metrics_endpoint._waiting)
            for _ in range(20):
                produce(wire, "t", [b"a"])
            assert not any(each.done() for each in scraping)
        finally:
            is_enough.set()
        for each in scraping:
            assert len(parse(each.result()[1]).samples["kafka_log_log_size"]) == 100


def test_topic_that_goes_away_while_the_text_is_made_does_no_harm(brokers, monkeypatch):
    monkeypatch.setattr(metrics_endpoint, "SLICE_SECONDS", 0.0)
    broker = brokers.start(ON)
    with Wire(broker.bootstrap_servers) as wire, ThreadPoolExecutor(1) as pool:
        create(wire, wanted("t", 50))
        scraping = pool.submit(get, broker.metrics_endpoint.url)
        delete(wire, "t")
        assert parse(scraping.result()[1]).value("kafka_server_kafkaserver_brokerstate") == 3


def test_metric_that_cannot_be_read_is_no_reason_to_stop_serving(brokers):
    broker = brokers.start(ON)
    known = broker.metrics_endpoint._known
    before = get(broker.metrics_endpoint.url)
    known.registry.gauge(own("broken"), "Broken", lambda: 1 / 0)
    logging.disable(logging.ERROR)
    try:
        assert get(broker.metrics_endpoint.url) == (500, "this page could not be made; the log says why\n")
        assert get(broker.metrics_endpoint.url)[0] == 500
    finally:
        logging.disable(logging.NOTSET)
    del known.registry._metrics[own("broken")]
    assert before[0] == get(broker.metrics_endpoint.url)[0] == 200
    with Wire(broker.bootstrap_servers) as wire:
        create(wire, wanted("t"))


def test_port_in_use_is_noticed_before_anything_is_made(brokers, tmp_path):
    port = brokers.start(ON).metrics_endpoint.url.rpartition(":")[2].removesuffix("/metrics")
    with pytest.raises(PortUnavailable, match=f"127.0.0.1:{port}: cannot serve HTTP there"):
        brokers.start({"milepost.metrics.port": port, "log.dirs": str(tmp_path / "other")})
    assert not (tmp_path / "other").exists()
    code, out, errors = refused("--data", str(tmp_path / "other"), "--port", "0", "-X", f"milepost.metrics.port={port}")
    assert (code, out, errors.count("\n")) == (3, "", 1)


# As a program.


def test_serve_says_where_and_every_scrape_under_load_can_be_read(tmp_path):
    with serving(tmp_path, "-X", "milepost.metrics.port=0") as served:
        (line,) = [line for line in served.lines if line.startswith("for Prometheus")]
        url = line.split()[-1]
        stop, sent = threading.Event(), []

        def send_on() -> None:
            with Cluster(served.address) as cluster, Producer(cluster) as producer:
                while not stop.is_set():
                    for _ in range(50):
                        producer.send("loaded", b"x" * 100)
                    producer.flush()
                    sent.append(50)

        with ThreadPoolExecutor(1) as pool:
            load = pool.submit(send_on)
            try:
                until(lambda: sent or load.done())
                seen = [scrape(url) for _ in range(5)]
            finally:
                stop.set()
            load.result()
        last = scrape(url)
        assert last.value("kafka_server_brokertopicmetrics_messagesin_total", topic="loaded") == sum(sent)
        counts = [each.samples["kafka_server_brokertopicmetrics_messagesin_total"][()] for each in [*seen, last]]
        assert counts == sorted(counts) and counts[-1] > 0
        assert served.stop() == (0, "", "")


def test_settings_can_be_shown(tmp_path):
    command = [*COMMAND[:-1], "config", "show", "--json", "-X", "milepost.metrics.port=9404"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_PATIENCE, check=True, cwd=tmp_path).stdout
    settings = {row["name"]: row["value"] for row in map(json.loads, shown.splitlines())}
    assert settings["milepost.metrics.port"] in (9404, "9404")
    assert settings["milepost.metrics.host"] == "127.0.0.1"
    assert settings["milepost.metrics.dialect"] == "strimzi"
