"""The `.log` file: batches back to back, found by walking their headers."""

from __future__ import annotations

import os

import pytest

from milepost.codec.compression import Codec
from milepost.errors import CorruptRecord, InvalidArgument
from milepost.files import Disk, HandlePool
from milepost.record.legacy_builder import build_legacy
from milepost.record.records import Record
from milepost.segment.file_records import CHUNK, HEADER_CHUNK, BatchPosition, FileRecords, Hole
from tests.segment.making import batch

# Offsets 0-1, 2-5 and 6 in batches of 100, 200 and 300 bytes.
SIZES = (100, 200, 300)
THREE = batch(0, 2, size=100, timestamp=1000) + batch(2, 4, size=200, timestamp=1002) + batch(6, size=300, timestamp=1001)


@pytest.fixture
def records(tmp_path):
    def make(content=THREE, disk=None):
        path = tmp_path / "00000000000000000000.log"
        path.write_bytes(content)
        return FileRecords(HandlePool(disk or Disk()).handle(str(path), os.O_RDWR), len(content))

    return make


def positions(records, start=0):
    return [(found.last_offset, found.position, found.size, found.max_timestamp) for found in records.positions(start)]


def test_walk_steps_from_batch_to_batch(records):
    walked = [(position, batch.base_offset, batch.last_offset) for position, batch in records().batches()]
    assert walked == [(0, 0, 1), (100, 2, 5), (300, 6, 6)]


def test_walk_by_headers_tells_last_offset_position_size_and_newest_timestamp(records):
    assert positions(records()) == [(1, 0, 100, 1000), (5, 100, 200, 1002), (6, 300, 300, 1001)]
    assert positions(records(), 100) == [(5, 100, 200, 1002), (6, 300, 300, 1001)]


@pytest.mark.parametrize("magic", [0, 1])
def test_walk_by_headers_reads_old_formats_by_their_last_offset(records, magic):
    plain = [Record(offset, 1000 + offset, b"k", b"v") for offset in (0, 1, 2)]
    wrapped = [Record(offset, 1000 + offset, b"k", b"v") for offset in (3, 4, 5)]
    content = build_legacy(plain, magic=magic) + build_legacy(wrapped, magic=magic, codec=Codec.GZIP)
    found = positions(records(content))
    assert [row[0] for row in found] == [0, 1, 2, 5]
    assert [row[3] for row in found] == ([-1, -1, -1, -1] if magic == 0 else [1000, 1001, 1002, 1005])


@pytest.mark.parametrize("end", [0, 1, 17, 99, 100, 117, 250, 299, 300, 599])
def test_walk_stops_before_a_batch_that_is_not_all_there(records, end):
    whole = [position for position, size in [(0, 100), (100, 200), (300, 300)] if position + size <= end]
    file = records(THREE[:end])
    assert [position for position, _ in file.batches()] == whole
    assert [row[1] for row in positions(file)] == whole


def test_walk_to_a_position_stops_there(records):
    assert [position for position, _ in records().batches(end=300)] == [0, 100]
    assert [position for position, _ in records().batches(end=299)] == [0]
    assert [position for position, _ in records().batches(100, 300)] == [100]


def test_seventeen_trailing_bytes_are_passed_over_and_eighteen_zeros_are_damage(records):
    assert len(list(records(THREE + bytes(17)).batches())) == 3
    for walk in ("batches", "positions"):
        with pytest.raises(CorruptRecord, match="position 600 says it has 0 bytes; 14 is the least"):
            list(getattr(records(THREE + bytes(18)), walk)())


@pytest.mark.parametrize("size", [13, 0, -1, -(2**31)])
def test_size_below_fourteen_is_damage(records, size):
    content = bytearray(THREE)
    content[108:112] = size.to_bytes(4, "big", signed=True)
    file = records(bytes(content))
    with pytest.raises(CorruptRecord, match=f"position 100 says it has {size} bytes"):
        list(file.batches())


def test_walk_crosses_the_pieces_it_reads_the_file_in(records):
    large = batch(1, size=CHUNK + 5000)
    content = batch(0, size=HEADER_CHUNK - 30) + large + batch(2, size=200) + batch(3, size=CHUNK - 100) + batch(4, size=100)
    file = records(content)
    expected = [0, 4066, 4066 + CHUNK + 5000, 4266 + CHUNK + 5000, 4166 + 2 * CHUNK + 5000]
    assert [position for position, _ in file.batches()] == expected
    assert [row[1] for row in positions(file)] == expected
    assert [batch.records()[0].offset for _, batch in file.batches()] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("offset", "start", "position"),
    [(0, 0, 0), (1, 0, 0), (2, 0, 100), (5, 0, 100), (6, 0, 300), (7, 0, None), (3, 100, 100), (0, 300, 300)],
)
def test_search_finds_the_first_batch_that_reaches_the_offset(records, offset, start, position):
    found = records().search_for(offset, start)
    assert (found and found.position) == position


def test_search_tells_the_batch_as_its_header_does(records):
    assert records().search_for(3) == BatchPosition(last_offset=5, position=100, size=200, max_timestamp=1002)


def test_search_in_an_empty_file_finds_nothing(records):
    assert records(b"").search_for(0) is None


def test_append_goes_to_the_end(records):
    file = records()
    file.append([batch(7, size=100)], 100)
    assert file.size_in_bytes == 700
    assert positions(file)[-1] == (7, 600, 100, 1000)


def test_append_of_several_buffers_is_one_run_of_bytes(records):
    file, data = records(), batch(7, size=100)
    file.append([data[:61], data[61:]], 100)
    assert positions(file)[-1] == (7, 600, 100, 1000)


def test_append_beyond_the_largest_file_is_refused(records):
    file = records()
    file.size_in_bytes = 2**31 - 100
    with pytest.raises(InvalidArgument, match="a segment holds at most 2147483647"):
        file.append([bytes(100)], 100)


def test_file_beyond_the_largest_is_not_opened():
    with pytest.raises(InvalidArgument, match="2147483648 bytes; a segment holds at most 2147483647"):
        FileRecords(HandlePool(Disk()).handle("nowhere"), 2**31)


class ShortDisk(Disk):
    """Takes a few bytes and then has no space left."""

    def pwritev(self, fd, buffers, position, size):
        os.pwrite(fd, b"".join(buffers)[:30], position)
        raise OSError(28, "No space left on device")


def test_append_that_the_disk_takes_half_of_is_cut_off_again(records):
    file = records(disk=ShortDisk())
    with pytest.raises(OSError, match="No space left"):
        file.append([batch(7, size=100)], 100)
    assert file.size_in_bytes == 600
    assert os.path.getsize(file.path) == 600


def test_read_cuts_anywhere_and_at_the_end(records):
    file = records()
    assert file.read(90, 20) == THREE[90:110]
    assert file.read(590, 100) == THREE[590:]
    assert file.read(600, 100) == b""
    assert file.read(10_000, 1) == b""


def test_read_of_a_file_that_somebody_cut_says_so(records):
    file = records()
    os.truncate(file.path, 50)
    with pytest.raises(CorruptRecord, match="40 bytes at position 10, where 100 were; the file was cut by somebody else"):
        file.read(10, 100)


def test_slice_is_read_later_and_ends_with_the_file(records):
    piece = records().slice(550, 100)
    assert (piece.position, piece.size) == (550, 50)
    assert piece.read() == THREE[550:]
    assert records().slice(700, 10).size == 0


def test_truncate_tells_how_many_bytes_went(records):
    file = records()
    assert file.truncate_to(300) == 300
    assert (file.size_in_bytes, os.path.getsize(file.path)) == (300, 300)


@pytest.mark.parametrize("size", [601, -1])
def test_truncate_outside_the_file_is_refused(records, size):
    with pytest.raises(InvalidArgument, match=f"cannot cut 600 bytes to {size}"):
        records().truncate_to(size)


def test_trim_drops_a_preallocated_tail(records):
    file = records()
    os.truncate(file.path, 10_000)
    file.trim()
    assert os.path.getsize(file.path) == 600


def test_header_of_a_batch_is_read_without_its_records(records):
    header = records().header_at(100)
    assert (header.base_offset, header.last_offset, header.size) == (2, 5, 200)


def with_hole(records):
    """The second batch, offsets 2 to 5, is noise."""
    file = records(THREE[:100] + b"\xff" * 200 + THREE[300:])
    file.holes = [Hole(100, 300, 2, 6)]
    return file


def test_walk_steps_over_a_hole(records):
    file = with_hole(records)
    assert [position for position, _ in file.batches()] == [0, 300]
    assert [row[1] for row in positions(file)] == [0, 300]
    assert [batch.base_offset for batch in file.headers()] == [0, 6]


@pytest.mark.parametrize("offset", [2, 3, 5])
def test_search_that_ends_inside_a_hole_names_it(records, offset):
    with pytest.raises(CorruptRecord, match="damaged bytes 100 to 300; offsets 2 to 5 are lost here, seek to 6 or run repair"):
        with_hole(records).search_for(offset)


@pytest.mark.parametrize(("offset", "position"), [(0, 0), (1, 0), (6, 300)])
def test_search_around_a_hole_works(records, offset, position):
    assert with_hole(records).search_for(offset).position == position


def test_cut_below_a_hole_forgets_it(records):
    file = with_hole(records)
    file.truncate_to(300)
    assert file.holes == [Hole(100, 300, 2, 6)]
    file.truncate_to(100)
    assert file.holes == []


@pytest.mark.parametrize("position", [584, 599, 600, 10_000])
def test_header_behind_the_last_batch_is_refused(records, position):
    with pytest.raises(CorruptRecord, match=f"no batch starts at position {position} of 600"):
        records().header_at(position)
