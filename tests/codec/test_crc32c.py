"""CRC-32C against the vectors of RFC 3720, on every kind of buffer, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from milepost.codec.crc32c import crc32c

VECTORS = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.mark.parametrize(("data", "checksum"), VECTORS)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_vectors(data, checksum, kind):
    assert crc32c(kind(data)) == checksum


def test_a_slice_of_a_view_is_read_in_place():
    assert crc32c(memoryview(bytearray(b"xx123456789yy"))[2:11]) == 0xE3069283


def test_checksum_goes_on_from_an_earlier_one():
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_importing_it_does_not_import_the_command_line_of_the_package():
    program = "import sys, milepost.codec.crc32c; print(sorted({'argparse', 'importlib.metadata'} & set(sys.modules)))"
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "[]\n"
