"""atheris target: compressed streams and varints from hostile bytes. Run it: `python -m tests.fuzz.fuzz_codec -atheris_runs=N`.

The first byte chooses the codec and whether the stream gets its usual opening, without which few inputs get past the magic.
"""

from __future__ import annotations

import atheris

from tests.fuzz.coverage_guided import fuzz

with atheris.instrument_imports(include=["milepost"]):
    from milepost.codec.compression import Codec, compress, decompress
    from milepost.codec.varint import read_unsigned_varint, read_varint
    from milepost.errors import InvalidRecord

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
OPENINGS = [
    bytes.fromhex("1f8b08000000000000ff"),
    bytes.fromhex("82534e41505059000000000100000001000000"),
    bytes.fromhex("04224d18604082"),
    bytes.fromhex("28b52ffd0058"),
]
MAX_SIZE = 1 << 20


def test_one_input(data: bytes) -> None:
    choice, stream = data[:1], data[1:]
    which = choice[0] & 3 if choice else 0
    if choice and choice[0] & 4:
        stream = OPENINGS[which] + stream
    for magic in (0, 2):
        try:
            content = decompress(CODECS[which], stream, max_size=MAX_SIZE, magic=magic)
        except InvalidRecord:
            continue
        assert len(content) <= MAX_SIZE
        assert decompress(CODECS[which], compress(CODECS[which], content)) == content
    for read in (read_varint, read_unsigned_varint):
        try:
            _, position = read(stream, 0)
        except InvalidRecord:
            continue
        assert 1 <= position <= 5


if __name__ == "__main__":
    fuzz(test_one_input)
