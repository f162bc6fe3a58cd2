"""kill -9 under a producer that retries and two consumers: nothing that was acknowledged is lost, doubled or out of order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.broker.killed import LASTING, PARTITIONS, Readers, killed_broker


def kill_cycles(directory: Path, cycles: int, records_per_cycle: int) -> None:
    rng = random.Random(7)
    acknowledged: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    failures: list[str] = []

    def delivered(error, message) -> None:
        if error is None:
            acknowledged[message.partition()].append(int(message.value()))
        else:
            failures.append(str(error))

    with killed_broker(directory, "killed") as broker:
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "linger.ms": 1,
                "queue.buffering.max.messages": 1_000_000,
                **LASTING,
            }
        )
        with Readers(broker.bootstrap, "killed") as readers:
            number = 0
            for _ in range(cycles):
                for _ in range(records_per_cycle):
                    producer.produce("killed", b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
                    number += 1
                    if number % 100 == 0:
                        producer.poll(0)
                producer.poll(rng.random() * 0.05)
                broker.kill()
            assert producer.flush(300) == 0
            assert failures == []
            found = readers.values(number)
        for partition in range(PARTITIONS):
            sent = list(range(partition, number, PARTITIONS))
            assert acknowledged[partition] == sent, "every record was acknowledged once, in order"
            assert found[partition] == sent, "what is read is what was sent: once each, in order"
        assert (broker.kills, sum(map(len, found.values()))) == (cycles, cycles * records_per_cycle)


def test_three_kills_lose_nothing(tmp_path):
    kill_cycles(tmp_path, 3, 4000)


@pytest.mark.trouble
def test_fifty_kills_lose_nothing_of_200_000_records(tmp_path):
    kill_cycles(tmp_path, 50, 4000)
