"""The fuzz target of producer snapshots, a bounded number of times: real bytes, damaged ones, and nonsense."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from milepost.log.producer_state.snapshot import SnapshotEntry, decode_snapshot, encode_snapshot
from tests.fuzz.fuzz_snapshot import one_input

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
ENTRIES = st.lists(
    st.builds(
        SnapshotEntry,
        producer_id=LONG,
        epoch=st.integers(-(2**15), 2**15 - 1),
        last_sequence=INT,
        last_data_offset=LONG,
        last_offset_delta=INT,
        last_timestamp=LONG,
        coordinator_epoch=INT,
        current_txn_first_offset=st.none() | st.integers(0, 2**63 - 1),
    ),
    max_size=8,
    unique_by=lambda entry: entry.producer_id,
)


@given(ENTRIES)
def test_any_entries_come_back_as_they_were_written(entries):
    data = encode_snapshot(entries)
    assert len(data) == 10 + 46 * len(entries)
    assert decode_snapshot(data, "x") == sorted(entries, key=lambda entry: entry.producer_id)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    one_input(data)


@given(ENTRIES, st.integers(0, 400), st.binary(max_size=8))
def test_real_bytes_with_a_piece_replaced_are_read_or_refused(entries, position, piece):
    data = bytearray(encode_snapshot(entries))
    data[position : position + len(piece)] = piece
    one_input(bytes(data))


def test_three_thousand_random_damages():
    rng = random.Random(20)
    entries = [SnapshotEntry(n, 0, 5, 100 + n, 3, 1700000000000, -1, None) for n in range(6)]
    whole = encode_snapshot(entries)
    accepted = 0
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        accepted += one_input(bytes(data[: rng.choice((len(data), rng.randrange(len(data)), 10 + 46 * rng.randint(0, 6)))]))
    # With the checksum made right most whole ones are snapshots: the target gets behind the checksum.
    assert accepted > 500
