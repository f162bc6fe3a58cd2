"""Apache Kafka's own clients, with their default settings, as Kafka's programs for measuring drive them: the clients that most people have.

ProducerPerformance sends records of random bytes as fast as it can, with the producer's defaults: idempotent, acks=all, batches of 16 KB,
linger of 5 ms. ConsumerPerformance reads them from the start, in a group; its figure leaves out the time in which it joins the group. Both
are Java programs of seconds: a part of a short run is spent before they are compiled, so that runs should not be short.
"""

from __future__ import annotations

import subprocess

from benchmarks.broker.brokers import JVM_OPTIONS
from benchmarks.broker.kafka_jars import jars, java

TOOLS = "org.apache.kafka.tools"
# As kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh start them.
HEAP = "-Xmx512M"
CLIENT_OPTIONS = [HEAP, *(option for option in JVM_OPTIONS if not option.startswith(("-Xmx", "-Xms")))]
FETCH_MB_S = "fetch.MB.sec"
COUNT = "data.consumed.in.nMsg"


def produce(bootstrap: str, topic: str, *, records: int, size: int) -> float:
    """MB/s of values."""
    sizes = ["--num-records", str(records), "--record-size", str(size), "--throughput", "-1"]
    output = _run("ProducerPerformance", ["--bootstrap-server", bootstrap, "--topic", topic, *sizes])
    # 800000 records sent, 103412.1 records/sec (100.99 MB/sec), 290.15 ms avg latency, ...
    sent, _, rate = output.splitlines()[-1].partition(" records sent, ")
    if sent != str(records):
        raise SystemExit(f"Java's producer sent {sent} of {records} records:\n{output[-2000:]}")
    return float(rate.split()[0]) * size / 1e6


def consume(bootstrap: str, topic: str, *, records: int) -> float:
    """MB/s of values, from the first fetch on."""
    given = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    output = _run("ConsumerPerformance", given)
    rows = [[cell.strip() for cell in line.split(",")] for line in output.splitlines() if "," in line]
    figures = dict(zip(rows[-2], rows[-1], strict=True))
    if int(figures[COUNT]) < records:
        raise SystemExit(f"Java's consumer received {figures[COUNT]} of {records} records:\n{output[-2000:]}")
    # The program counts in MiB.
    return float(figures[FETCH_MB_S]) * 1.048576


def _run(program: str, arguments: list[str]) -> str:
    command = [java(), *CLIENT_OPTIONS, "-cp", f"{jars()}/*", f"{TOOLS}.{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{program} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout.strip()
