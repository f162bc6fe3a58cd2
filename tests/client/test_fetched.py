"""What a reader may see of the batches in an answer."""

from __future__ import annotations

import pytest

from milepost.client.fetched import read_fetched
from milepost.codec.compression import Codec
from milepost.errors import MalformedMessage
from milepost.record.builder import build_batch, build_legacy
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record


def batch(offset: int, *values: bytes, producer: int = -1, codec: Codec = Codec.NONE) -> bytes:
    """Transactional when it has a producer."""
    records = [Record(offset + at, 1000, None, value) for at, value in enumerate(values)]
    if producer < 0:
        return build_batch(records, codec=codec)
    return build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)


def marker(offset: int, kind: ControlType, producer: int) -> bytes:
    return end_transaction_batch(
        EndTransactionMarker(kind, 0), offset=offset, timestamp=1000, producer_id=producer, producer_epoch=0
    )


def values(data: bytes, offset: int = 0, **options) -> list[bytes | None]:
    return [record.value for record in read_fetched(data, offset, **options).records]


def test_records_before_the_offset_asked_for_are_dropped():
    fetched = read_fetched(batch(5, b"a", b"b", b"c"), 6)
    assert [(record.offset, record.value) for record in fetched.records] == [(6, b"b"), (7, b"c")]
    assert fetched.next_offset == 8


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(codec):
    assert values(batch(0, b"a", b"b", codec=codec)) == [b"a", b"b"]


def test_batch_that_is_cut_off_is_left_for_the_next_fetch():
    whole = batch(0, b"a") + batch(1, b"b")
    fetched = read_fetched(whole[:-1], 0)
    assert ([record.value for record in fetched.records], fetched.next_offset) == ([b"a"], 1)


def test_markers_are_never_shown_and_are_stepped_over():
    fetched = read_fetched(batch(0, b"a", producer=1) + marker(1, ControlType.COMMIT, 1), 0)
    assert ([record.value for record in fetched.records], fetched.next_offset) == ([b"a"], 2)


def test_aborted_transaction_is_hidden_from_its_first_offset_to_its_marker():
    data = (
        batch(0, b"a", producer=1)
        + marker(1, ControlType.ABORT, 1)
        + batch(2, b"b", producer=1)
        + marker(3, ControlType.COMMIT, 1)
    )
    assert values(data, aborted=[(1, 0)], is_committed_only=True) == [b"b"]
    assert values(data) == [b"a", b"b"]


def test_two_producers_with_interleaved_transactions():
    data = b"".join(
        [
            batch(0, b"one", producer=1),
            batch(1, b"two", producer=2),
            marker(2, ControlType.ABORT, 1),
            batch(3, b"two again", producer=2),
            batch(4, b"plain"),
            marker(5, ControlType.COMMIT, 2),
        ]
    )
    assert values(data, aborted=[(1, 0)], is_committed_only=True) == [b"two", b"two again", b"plain"]
    assert values(data, aborted=[(2, 1), (1, 0)], is_committed_only=True) == [b"plain"]


def test_fetch_from_the_middle_of_an_aborted_transaction():
    data = batch(7, b"b", producer=1) + marker(8, ControlType.ABORT, 1)
    assert values(data, 7, aborted=[(1, 3)], is_committed_only=True) == []


def test_plain_batch_of_a_producer_whose_transaction_was_aborted_is_shown():
    data = batch(0, b"a", producer=1) + build_batch(
        [Record(1, 1000, None, b"idempotent")], producer_id=1, producer_epoch=0, base_sequence=1
    )
    assert values(data, aborted=[(1, 0)], is_committed_only=True) == [b"idempotent"]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_the_old_formats(magic):
    data = build_legacy([Record(3, 1000 if magic else -1, b"k", b"v"), Record(4, 1000 if magic else -1, b"k", b"w")], magic=magic)
    fetched = read_fetched(data, 4)
    assert ([record.value for record in fetched.records], fetched.next_offset) == ([b"w"], 5)


def test_batch_that_was_damaged_on_its_way_is_not_shown():
    data = bytearray(batch(0, b"a"))
    data[-1] ^= 1
    with pytest.raises(MalformedMessage, match=r"^host:1, t-0 from offset 0: batch at position 0 .* CRC-32C") as caught:
        read_fetched(bytes(data), 0, where="host:1, t-0 from offset 0")
    assert caught.value.exit_code == 4


def test_nothing_came():
    assert read_fetched(b"", 5).next_offset == 5
