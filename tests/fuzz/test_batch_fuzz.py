"""Batches of magic 2 under random and hostile bytes: round trips hold, and damage gives an error of ours, never anything else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.codec.compression import Codec
from milepost.codec.crc32c import crc32c
from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from milepost.record.batch import RecordBatch
from milepost.record.batches import iter_batches
from milepost.record.builder import build_batch, rewrite_batch
from milepost.record.records import Record
from tests.fuzz.coverage_guided import needs_atheris, run_target

DAMAGE = (CorruptRecord, InvalidRecord, UnsupportedCompressionType)
MAX_DECOMPRESSED = 1 << 20
# Two records, leader epoch 7, base offset 100.
WORKED = bytes.fromhex(
    "00000000000000640000004c000000070232deae190000000000010000018bcfe568000000018bcfe56805ffffffffffffffffffffffffffff00000002"
    "14000000046b31047631001e000a02010a68656c6c6f0202680278"
)

contents = st.none() | st.binary(max_size=200)
header_keys = st.text(max_size=10) | st.binary(max_size=10).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
headers = st.lists(st.tuples(header_keys, contents), max_size=3)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        timestamp = draw(st.integers(-1, 2**63 - 1))
        records.append(Record(offset, timestamp, draw(contents), draw(contents), tuple(draw(headers))))
        offset += draw(st.integers(1, 2**27))
    return records


def with_right_crc(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return bytes(batch)


@given(record_lists(), st.sampled_from(list(Codec)))
def test_what_is_built_is_read_back(records, codec):
    batch = RecordBatch(build_batch(records, codec=codec))
    batch.ensure_valid()
    assert batch.records() == records
    assert (batch.base_offset, batch.last_offset) == (records[0].offset, records[-1].offset)
    assert batch.max_timestamp == max(record.timestamp for record in records)


@given(record_lists(), st.sampled_from(list(Codec)), st.data())
def test_what_compaction_keeps_is_read_back(records, codec, data):
    batch = RecordBatch(build_batch(records, codec=codec))
    kept = data.draw(
        st.lists(st.sampled_from(records), min_size=1, unique_by=id).map(lambda some: sorted(some, key=lambda r: r.offset))
    )
    horizon = data.draw(st.none() | st.integers(0, 2**63 - 1))
    rewritten = RecordBatch(rewrite_batch(batch, kept, delete_horizon_ms=horizon))
    rewritten.ensure_valid()
    assert rewritten.records() == kept
    assert (rewritten.base_offset, rewritten.last_offset) == (records[0].offset, records[-1].offset)
    assert rewritten.delete_horizon_ms == horizon


@given(st.binary(max_size=400))
def test_random_bytes_give_batches_or_an_error_of_ours(data):
    try:
        for batch in iter_batches(data):
            batch.is_valid()
            batch.records(MAX_DECOMPRESSED)
    except DAMAGE:
        pass


@given(st.integers(0, 0x7F), st.integers(-2, 2**31 - 1), st.binary(max_size=200))
def test_hostile_records_under_a_right_crc_are_read_whole_or_refused(attributes, count, payload):
    batch = bytearray(WORKED[:61] + payload)
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[21:23] = attributes.to_bytes(2, "big")
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    view = RecordBatch(with_right_crc(batch))
    view.ensure_valid()
    with contextlib.suppress(DAMAGE):
        assert len(view.records(MAX_DECOMPRESSED)) == count


@pytest.mark.parametrize("codec", list(Codec))
@given(data=st.data())
def test_a_changed_byte_under_a_right_crc_is_read_whole_or_refused(codec, data):
    batch = bytearray(build_batch(RecordBatch(WORKED).records(), codec=codec))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(21, len(batch) - 1))
        batch[position] = data.draw(st.integers(0, 255))
    view = RecordBatch(with_right_crc(batch))
    with contextlib.suppress(DAMAGE):
        assert len(view.records(MAX_DECOMPRESSED)) == view.record_count


@given(st.integers(0, 87), st.integers(0, 87))
def test_a_batch_cut_anywhere_never_gives_a_part_of_its_records(start, end):
    piece = WORKED[start:end]
    with contextlib.suppress(DAMAGE):
        assert all(len(batch.records()) == 2 for batch in iter_batches(piece))


@needs_atheris
def test_coverage_guided_inputs_find_no_other_error(tmp_path):
    for codec in Codec:
        seed = build_batch(RecordBatch(WORKED).records(), codec=codec)
        (tmp_path / codec.name).write_bytes(b"\x01" + seed)
    run_target("fuzz_batch", tmp_path, tmp_path, "-runs=20000", "-seed=1", "-max_len=400", "-len_control=0", "-rss_limit_mb=1024")
