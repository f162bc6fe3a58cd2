"""Messages of magic 0 and 1 under random and hostile bytes: round trips hold, and damage gives an error of ours."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.codec.compression import Codec, compress
from milepost.errors import CorruptRecord, InvalidRecord, UnsupportedCompressionType
from milepost.record.batches import iter_batches
from milepost.record.builder import build_legacy
from milepost.record.legacy import LegacyBatch
from milepost.record.records import Record
from tests.fuzz.coverage_guided import needs_atheris, run_target

DAMAGE = (CorruptRecord, InvalidRecord, UnsupportedCompressionType)
MAX_DECOMPRESSED = 1 << 20
# Offset 5, key k, value v, 1700000000000; the same in magic 0, where it has no timestamp.
V0 = bytes.fromhex("0000000000000005 00000010 1fecd70a 00 00 00000001 6b 00000001 76")
V1 = bytes.fromhex("0000000000000005 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76")

codecs = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
wrapping_codecs = st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
contents = st.none() | st.binary(max_size=200)


@st.composite
def record_lists(draw: st.DrawFn, magic: int) -> list[Record]:
    offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        timestamp = draw(st.integers(-1, 2**63 - 1)) if magic else -1
        records.append(Record(offset, timestamp, draw(contents), draw(contents)))
        offset += draw(st.integers(1, 2**40))
    return records


def wrapper(magic: int, codec: Codec, offset: int, inner: bytes) -> bytes:
    value = compress(codec, inner, magic=magic)
    content = bytes([magic, codec]) + bytes(8 * magic) + b"\xff" * 4 + len(value).to_bytes(4, "big") + value
    return offset.to_bytes(8, "big") + (len(content) + 4).to_bytes(4, "big") + bytes(4) + content


@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data(), codec=codecs)
def test_what_is_built_is_read_back(magic, data, codec):
    records = data.draw(record_lists(magic))
    batches = list(iter_batches(build_legacy(records, magic=magic, codec=codec)))
    assert len(batches) == (len(records) if codec == Codec.NONE else 1)
    assert all(batch.is_valid() for batch in batches)
    assert [record for batch in batches for record in batch.records()] == records
    assert batches[-1].last_offset == records[-1].offset


@given(st.binary(max_size=200))
def test_random_bytes_behind_a_message_start_give_messages_or_an_error_of_ours(data):
    for start in (V0[:18], V1[:18]):
        try:
            for batch in iter_batches(start + data):
                batch.is_valid()
                assert batch.records(MAX_DECOMPRESSED)
        except DAMAGE:
            pass


@given(
    st.integers(0, 1),
    wrapping_codecs,
    st.integers(0, 2**63 - 1),
    st.binary(max_size=100),
    st.integers(0, 71),
    st.integers(0, 255),
)
def test_damaged_inner_messages_are_read_or_refused(magic, codec, offset, tail, position, byte):
    inner = bytearray((V1 + V1 if magic else V0 + V0 + V0[:16]) + tail)
    inner[position] = byte
    with contextlib.suppress(DAMAGE):
        assert LegacyBatch(wrapper(magic, codec, offset, bytes(inner))).records(MAX_DECOMPRESSED)


@given(st.integers(0, 1), wrapping_codecs, st.binary(max_size=200))
def test_a_random_stream_in_a_wrapper_is_read_or_refused(magic, codec, stream):
    content = bytes([magic, codec]) + bytes(8 * magic) + b"\xff" * 4 + len(stream).to_bytes(4, "big") + stream
    batch = LegacyBatch(bytes(8) + (len(content) + 4).to_bytes(4, "big") + bytes(4) + content)
    with contextlib.suppress(DAMAGE):
        assert batch.records(MAX_DECOMPRESSED)


@needs_atheris
def test_coverage_guided_inputs_find_no_other_error(tmp_path):
    (tmp_path / "plain").write_bytes(b"\x00" + V0 + V1)
    for choice in range(1, 16):
        (tmp_path / f"wrapper {choice}").write_bytes(bytes([choice]) + (V1 if choice & 1 else V0) * 2)
    run_target(
        "fuzz_legacy", tmp_path, tmp_path, "-runs=20000", "-seed=1", "-max_len=400", "-len_control=0", "-rss_limit_mb=1024"
    )
