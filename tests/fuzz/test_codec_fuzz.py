"""The codecs under random and damaged bytes: round trips hold, damage gives an error of ours, output stays under its cap."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from milepost.codec.compression import Codec, compress, decompress
from milepost.codec.varint import (
    read_unsigned_varint,
    read_varint,
    varint_size,
    write_unsigned_varint,
    write_varint,
)
from milepost.errors import InvalidRecord
from tests.fuzz.coverage_guided import needs_atheris, run_target

EXAMPLES = settings(max_examples=400)
CODECS = st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
MAX_SIZE = 1 << 16
# How each stream starts, so that random bytes behind it reach the inside of the parser.
OPENINGS = {
    Codec.GZIP: bytes.fromhex("1f8b08000000000000ff"),
    Codec.SNAPPY: bytes.fromhex("82534e41505059000000000100000001000000"),
    Codec.LZ4: bytes.fromhex("04224d18604082"),
    Codec.ZSTD: bytes.fromhex("28b52ffd0058"),
}
DATA = st.binary(max_size=300) | st.tuples(st.binary(max_size=20), st.integers(0, 20_000)).map(
    lambda run: run[0] * (run[1] // 20)
)


def decompressed(codec: Codec, stream: bytes) -> bytes | None:
    try:
        data = decompress(codec, stream, max_size=MAX_SIZE)
    except InvalidRecord as error:
        assert str(error).startswith(f"{codec.name.lower()}: ")
        return None
    assert len(data) <= MAX_SIZE
    return data


@EXAMPLES
@given(codec=CODECS, data=DATA)
def test_what_is_compressed_comes_back(codec, data):
    assert decompress(codec, compress(codec, data), max_size=len(data)) == data


@EXAMPLES
@given(codec=CODECS, stream=st.binary(max_size=200), opening=st.booleans())
def test_random_streams(codec, stream, opening):
    decompressed(codec, OPENINGS[codec] + stream if opening else stream)


@EXAMPLES
@given(codec=CODECS, data=DATA, changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4))
def test_streams_with_changed_bytes(codec, data, changes):
    stream = bytearray(compress(codec, data))
    for position, value in changes:
        stream[position % len(stream)] = value
    decompressed(codec, bytes(stream))


@EXAMPLES
@given(codec=CODECS, data=DATA, cut=st.integers(1, 400), behind=st.binary(min_size=1, max_size=20))
def test_streams_cut_and_streams_with_bytes_behind(codec, data, cut, behind):
    stream = compress(codec, data)
    shorter = decompressed(codec, stream[: max(len(stream) - cut, 0)])
    # Only a xerial stream may end between two of its chunks; nothing else gives part of the data.
    assert shorter is None or (codec is Codec.SNAPPY and data.startswith(shorter))
    decompressed(codec, stream + behind)


@EXAMPLES
@given(st.binary(max_size=12))
def test_numbers_from_random_bytes(data):
    for read, write, size in (
        (read_varint, write_varint, varint_size),
        (read_unsigned_varint, write_unsigned_varint, None),
    ):
        try:
            value, end = read(data, 0)
        except InvalidRecord:
            continue
        out = bytearray()
        write(out, value)
        assert read(out, 0) == (value, len(out))
        assert len(out) <= end <= 5
        assert size is None or size(value) == len(out)


@needs_atheris
def test_coverage_guided_run(tmp_path):
    run_target("fuzz_codec", tmp_path, "-atheris_runs=20000", "-max_len=300", "-rss_limit_mb=512")
