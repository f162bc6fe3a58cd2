"""How transactions ended, from the golden directories that hold them."""

from __future__ import annotations

import pytest

from milepost.files import Disk
from milepost.inspect.transaction_states import TransactionStates
from milepost.record.batches import iter_batches
from tests.golden_fixture import Golden

VERSIONS = ("2.4.1", "3.9.1", "4.3.0")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("partition", ["tx-0", "tx-1"])
def test_the_offsets_of_committed_and_plain_batches_are_those_a_committed_reader_got(golden: Golden, version: str, partition: str) -> None:
    case = f"transactions/kafka-{version}"
    directory = golden.partition(case, partition)
    states = TransactionStates(Disk(), str(directory))
    readable = [
        record.offset
        for path in sorted(directory.glob("*.log"))
        for batch in iter_batches(path.read_bytes())
        if not batch.is_control and states.of(batch) in ("committed", "none")
        for record in batch.records()
    ]
    live = golden.expected(case, partition)["live"]
    expected = [offset for first, last in live["readCommittedOffsets"] for offset in range(first, last + 1)]
    assert [offset for offset in readable if offset < live["lastStable"]] == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_transactions_without_a_marker_are_open(golden: Golden, version: str) -> None:
    directory = golden.partition(f"transactions/kafka-{version}", "open-0")
    states = TransactionStates(Disk(), str(directory))
    found = {
        states.of(batch) for path in sorted(directory.glob("*.log")) for batch in iter_batches(path.read_bytes()) if batch.is_transactional
    }
    assert "open" in found
