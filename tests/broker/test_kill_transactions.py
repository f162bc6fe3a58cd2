"""kill -9 while a topic is copied to another in transactions, and two consumers read what is committed: every record once, in order.

The offsets of what was read are part of the same transactions. Both protocols: partitions added by the client (librdkafka), and an epoch
for every transaction (KIP-890, the Java client 4.3.0).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from milepost.protocol.messages import DescribeTransactionsRequest
from tests.broker.copying import Copier, JavaCopier, RdkafkaCopier, Source, committed_offsets, copying
from tests.broker.killed import PARTITIONS, KilledBroker, Readers, killed_broker
from tests.broker.transaction_talk import Talk
from tests.waiting import until

COPY_SECONDS = 240


def kill_cycles(directory: Path, cycles: int, records: int, make_copier: Callable[[str, int], Copier]) -> tuple[Copier, int]:
    """The copier when it is done, and the epoch that its producer ended with."""
    rng = random.Random(11)
    with killed_broker(directory, "in", "out") as broker:
        source = Source(broker.bootstrap)
        copier = make_copier(broker.bootstrap, records)
        readers = Readers(broker.bootstrap, "out", **{"isolation.level": "read_committed"})
        with readers, copying(copier):
            share = records // cycles
            for cycle in range(cycles):
                # Each life of the broker gets a share of the records, and ends somewhere in the middle of their transactions.
                source.give(share)
                goal = cycle * share + rng.randrange(share)
                until(lambda goal=goal: copier.copied >= goal or copier.fault, "nothing more was copied", COPY_SECONDS, 0.01)
                time.sleep(rng.random() * 0.02)
                broker.kill()
            source.end()
            copier.join(COPY_SECONDS)
            assert copier.fault is None, copier.fault
            assert not copier.is_alive(), f"of {records} records {copier.copied} are copied after {COPY_SECONDS} s"
            found = readers.values(records)
        for partition in range(PARTITIONS):
            assert found[partition] == list(range(partition, records, PARTITIONS)), "once each, in order"
        assert committed_offsets(broker.bootstrap) == [records // PARTITIONS] * PARTITIONS
        epoch = epoch_when_all_is_over(broker)
        assert broker.kills == cycles
    return copier, epoch


def epoch_when_all_is_over(broker: KilledBroker) -> int:
    talk = Talk(broker.bootstrap)
    try:
        talk.until("copier", "CompleteCommit")
        (state,) = talk.wire.ask(DescribeTransactionsRequest(transactional_ids=["copier"]), 0).transaction_states
        assert (state.error_code, state.transaction_state) == (0, "CompleteCommit")
        for partition in range(PARTITIONS):
            talk.log(f"out-{partition}")
        for line in talk.lines:
            words = line.split()
            assert words[words.index("stable") + 1] == words[words.index("of") + 1], f"a transaction is still open: {line}"
        epoch: int = state.producer_epoch
        return epoch
    finally:
        talk.close()


def test_three_kills_under_transactions_of_version_1(tmp_path):
    copier, epoch = kill_cycles(tmp_path, 3, 6_000, RdkafkaCopier)
    assert epoch < copier.transactions, "an epoch for many transactions"


@pytest.mark.kafka
def test_three_kills_under_transactions_of_version_2(tmp_path):
    copier, epoch = kill_cycles(tmp_path, 3, 6_000, JavaCopier)
    assert epoch >= copier.transactions, "an epoch for every transaction"


@pytest.mark.trouble
def test_fifty_kills_under_transactions_of_version_1(tmp_path):
    copier, epoch = kill_cycles(tmp_path, 50, 200_000, RdkafkaCopier)
    assert epoch < copier.transactions, "an epoch for many transactions"


@pytest.mark.kafka
@pytest.mark.trouble
@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_fifty_kills_under_transactions_of_version_2(tmp_path, group_protocol):
    copier, epoch = kill_cycles(tmp_path, 50, 200_000, partial(JavaCopier, group_protocol=group_protocol))
    assert epoch >= copier.transactions, "an epoch for every transaction"
