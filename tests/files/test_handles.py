"""Files on demand: descriptors come with the first use and go when too many are open."""

from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from milepost.files import Disk, HandlePool
from milepost.files.handles import default_limit


@pytest.fixture
def files(tmp_path):
    """Paths of ten files, each holding its own number."""
    paths = [tmp_path / str(number) for number in range(10)]
    for number, path in enumerate(paths):
        path.write_bytes(str(number).encode())
    return [str(path) for path in paths]


def read(handle):
    return handle.disk.pread(handle.fd, 10, 0)


def test_handle_opens_nothing_before_its_first_use(files):
    handle = HandlePool(Disk()).handle(files[3])
    assert not handle.is_open
    assert read(handle) == b"3"
    assert handle.is_open


def test_more_files_than_the_limit_are_all_readable_again_and_again(files):
    pool = HandlePool(Disk(), limit=3)
    handles = [pool.handle(path) for path in files]
    for _ in range(3):
        assert [read(handle) for handle in handles] == [str(number).encode() for number in range(10)]
        assert sum(handle.is_open for handle in handles) <= 3


def test_handle_that_was_used_since_the_last_sweep_outlives_one_that_was_not(files):
    pool = HandlePool(Disk(), limit=4)
    first, second, third, fourth, fifth, sixth, *_ = [pool.handle(path) for path in files]
    for handle in (first, second, third, fourth, fifth):
        read(handle)
    assert not first.is_open
    read(second)
    read(sixth)
    assert [handle.is_open for handle in (second, third, fourth, fifth, sixth)] == [True, False, True, True, True]


def test_mapping_counts_as_an_open_file(files):
    pool = HandlePool(Disk(), limit=2)
    handles = [pool.handle(path) for path in files]
    for number, handle in enumerate(handles):
        assert bytes(handle.view(1)[:]) == str(number).encode()
        assert sum(handle.is_open for handle in handles) <= 2


def test_closed_handle_opens_its_file_again(files):
    handle = HandlePool(Disk()).handle(files[7])
    assert read(handle) == b"7"
    handle.close()
    handle.close()
    assert not handle.is_open
    assert read(handle) == b"7"


def test_file_is_created_once_and_not_again_after_somebody_removed_it(tmp_path):
    path = str(tmp_path / "new")
    handle = HandlePool(Disk()).handle(path, os.O_RDWR | os.O_CREAT)
    assert read(handle) == b""
    handle.close()
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        read(handle)


def test_view_of_a_sealed_file_is_kept_until_the_handle_closes(files):
    handle = HandlePool(Disk()).handle(files[5])
    assert handle.view(1) is handle.view(1)
    handle.close()
    assert bytes(handle.view(1)[:]) == b"5"


def test_default_limit_leaves_three_quarters_of_the_descriptors_to_others(monkeypatch):
    for soft, limit in [(1024, 256), (20, 16), (1_000_000, 4096), (resource.RLIM_INFINITY, 4096)]:
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert default_limit() == limit


def test_ten_thousand_files_fit_into_a_small_limit(tmp_path):
    (tmp_path / "one").write_bytes(b"1")
    pool = HandlePool(Disk(), limit=16)
    handles = [pool.handle(str(tmp_path / "one")) for _ in range(10_000)]
    assert {read(handle) for handle in handles} == {b"1"}
    assert sum(handle.is_open for handle in handles) == 16


def test_descriptor_in_use_is_not_given_to_another_file(files):
    """Another thread may open as many files as it likes between the fetching of a descriptor and its use."""
    pool = HandlePool(Disk(), limit=2)
    mine, *others = [pool.handle(path) for path in files]
    fd = mine.fd
    assert [read(handle) for handle in others] == [str(number).encode() for number in range(1, 10)]
    assert not mine.is_open
    assert os.pread(fd, 10, 0) == b"0"


def test_descriptor_is_closed_with_its_last_use(files):
    pool = HandlePool(Disk(), limit=1)
    first, second, *_ = [pool.handle(path) for path in files]
    fd = first.fd
    number = int(fd)
    read(second)
    del fd
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pread(number, 10, 0)


def test_descriptor_that_was_closed_is_not_closed_again_when_another_file_has_its_number(files):
    pool = HandlePool(Disk())
    first, second, *_ = [pool.handle(path) for path in files]
    fd = first.fd
    first.close()
    assert int(second.fd) == int(fd)
    del fd
    assert read(second) == b"1"


def test_view_in_use_outlives_the_sweep(files):
    pool = HandlePool(Disk(), limit=1)
    first, second, *_ = [pool.handle(path) for path in files]
    view = first.view(1)
    second.view(1)
    assert not first.is_open
    assert bytes(view[:]) == b"0"


def test_sixty_four_threads_at_a_limit_of_eight_write_into_their_own_files(tmp_path):
    pool = HandlePool(Disk(), limit=8)

    def write_lines(number):
        handles = [pool.handle(str(tmp_path / f"{number}-{each}"), os.O_RDWR | os.O_CREAT) for each in range(3)]
        for line in range(100):
            for handle in handles:
                handle.disk.pwrite(handle.fd, b"%03d" % number, 3 * line)

    with ThreadPoolExecutor(64) as threads:
        list(threads.map(write_lines, range(64)))
    for number in range(64):
        for each in range(3):
            assert (tmp_path / f"{number}-{each}").read_bytes() == b"%03d" % number * 100


def test_handle_that_is_finished_reads_its_file_at_the_new_place_and_writes_no_more(files, tmp_path):
    handle = HandlePool(Disk()).handle(files[3], os.O_RDWR)
    read(handle)
    moved = str(tmp_path / "moved")
    os.rename(files[3], moved)
    handle.finish(moved)
    assert read(handle) == b"3"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(handle.fd, b"x", 0)


def test_handle_that_is_finished_before_its_first_use_makes_no_file(tmp_path):
    path = tmp_path / "new"
    handle = HandlePool(Disk()).handle(str(path), os.O_RDWR | os.O_CREAT)
    handle.finish(str(path))
    with pytest.raises(FileNotFoundError):
        read(handle)
    assert not path.exists()
