"""A view in which everything can be changed and nothing on the disk is."""

from __future__ import annotations

import os
import socket

import pytest

from milepost.files import Overlay, read_file, remove_file, replace_file


@pytest.fixture
def overlay() -> Overlay:
    return Overlay()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    os.utime(path, (1000.5, 1000.5))
    yield str(path)
    assert path.read_bytes() == b"0123456789"
    assert path.stat().st_mtime == 1000.5
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def content(overlay, path):
    fd = overlay.open(path)
    try:
        return overlay.pread(fd, 100, 0)
    finally:
        overlay.close(fd)


def test_untouched_file_is_read_from_the_disk(overlay, path):
    assert content(overlay, path) == b"0123456789"
    assert overlay.stat(path).st_size == 10


def test_write_is_seen_in_the_view_only(overlay, path):
    fd = overlay.open(path, os.O_RDWR)
    overlay.pwrite(fd, b"ab", 3)
    overlay.fsync(fd)
    overlay.close(fd)
    assert content(overlay, path) == b"012ab56789"


def test_write_behind_the_end_leaves_zeros_between(overlay, path):
    fd = overlay.open(path, os.O_RDWR)
    overlay.pwritev(fd, [b"a", b"b"], 12, 2)
    assert overlay.pread(fd, 100, 0) == b"0123456789\0\0ab"
    overlay.close(fd)


def test_descriptor_that_was_open_before_sees_the_write(overlay, path):
    reader, writer = overlay.open(path), overlay.open(path, os.O_RDWR)
    overlay.pwrite(writer, b"X", 0)
    assert overlay.pread(reader, 3, 0) == b"X12"
    overlay.close(writer)
    overlay.close(reader)


def test_cut_file_ends_early_for_every_question(overlay, path):
    fd = overlay.open(path, os.O_RDWR)
    overlay.truncate(fd, 4)
    assert overlay.size(fd) == 4
    assert overlay.pread(fd, 100, 0) == b"0123"
    assert overlay.pread(fd, 100, 2) == b"23"
    assert overlay.pread(fd, 100, 6) == b""
    assert overlay.stat(path).st_size == 4
    assert overlay.stat(path).st_mtime == 1000.5
    assert bytes(overlay.map(fd, 4)[:]) == b"0123"
    overlay.close(fd)
    assert content(overlay, path) == b"0123"


def test_cut_file_that_grows_again_has_zeros_where_bytes_were(overlay, path):
    fd = overlay.open(path, os.O_RDWR)
    overlay.truncate(fd, 4)
    overlay.truncate(fd, 6)
    assert overlay.pread(fd, 100, 0) == b"0123\0\0"
    overlay.truncate(fd, 1)
    assert overlay.pread(fd, 100, 0) == b"0"
    overlay.close(fd)


def test_cut_file_that_is_written_continues_at_the_cut(overlay, path):
    fd = overlay.open(path, os.O_RDWR)
    overlay.truncate(fd, 4)
    overlay.pwrite(fd, b"ab", 4)
    assert overlay.pread(fd, 100, 0) == b"0123ab"
    overlay.close(fd)


def test_new_file_lives_in_the_view(overlay, path):
    new = path + ".index"
    fd = overlay.open(new, os.O_RDWR | os.O_CREAT)
    overlay.pwrite(fd, b"entry", 0)
    assert bytes(overlay.map(fd, 3)) == b"ent"
    overlay.close(fd)
    assert overlay.exists(new)
    assert content(overlay, new) == b"entry"
    assert overlay.listdir(os.path.dirname(path)) == ["file", "file.index"]


def test_mapping_of_a_new_file_cannot_be_written(overlay, path):
    fd = overlay.open(path + ".index", os.O_RDWR | os.O_CREAT)
    overlay.pwrite(fd, b"entry", 0)
    with pytest.raises(TypeError):
        overlay.map(fd, 3)[0] = 1
    overlay.close(fd)


def test_truncating_open_empties_the_file_in_the_view(overlay, path):
    overlay.close(overlay.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    assert content(overlay, path) == b""


def test_removed_file_is_gone_in_the_view(overlay, path):
    assert remove_file(overlay, path) is True
    assert not overlay.exists(path)
    assert overlay.listdir(os.path.dirname(path)) == []
    for question in (overlay.open, overlay.stat, overlay.unlink):
        with pytest.raises(FileNotFoundError):
            question(path)
    assert remove_file(overlay, path) is False


def test_removed_file_that_is_made_again_starts_empty(overlay, path):
    overlay.unlink(path)
    overlay.close(overlay.open(path, os.O_RDWR | os.O_CREAT))
    assert content(overlay, path) == b""


def test_renamed_file_is_read_under_its_new_name(overlay, path):
    overlay.rename(path, path + ".deleted")
    assert content(overlay, path + ".deleted") == b"0123456789"
    assert overlay.stat(path + ".deleted").st_size == 10
    assert overlay.listdir(os.path.dirname(path)) == ["file.deleted"]
    with pytest.raises(FileNotFoundError):
        overlay.open(path)


def test_rename_over_another_file_replaces_it_in_the_view(overlay, path):
    replace_file(overlay, path, b"replaced")
    assert read_file(overlay, path) == b"replaced"
    assert overlay.listdir(os.path.dirname(path)) == ["file"]


def test_time_of_change_can_be_set_in_the_view(overlay, path):
    overlay.set_mtime(path, 2000.0)
    assert overlay.stat(path).st_mtime == 2000.0
    assert overlay.stat(path).st_size == 10


def test_missing_file_is_missing(overlay, path):
    with pytest.raises(FileNotFoundError):
        overlay.open(path + ".nothing", os.O_RDWR)
    assert not overlay.exists(path + ".nothing")


def test_lock_is_taken_without_touching_anything(overlay, path):
    fd = overlay.open(path)
    assert overlay.lock(fd) is True
    overlay.sync_directory(os.path.dirname(path))
    overlay.close(fd)


def test_directories_are_neither_made_nor_removed(overlay, path):
    with pytest.raises(PermissionError, match="Read-only view"):
        overlay.mkdir(path + ".d")
    with pytest.raises(PermissionError, match="Read-only view"):
        overlay.rmdir(os.path.dirname(path))


def test_file_that_grows_has_zeros_at_its_end_and_keeps_what_it_had(overlay, path):
    fd = overlay.open(path, os.O_RDWR)
    overlay.truncate(fd, 10 << 20)
    assert (overlay.size(fd), overlay.stat(path).st_size) == (10 << 20, 10 << 20)
    assert overlay.pread(fd, 4, 8) == b"89\0\0"
    assert overlay.pread(fd, 100, (10 << 20) - 2) == b"\0\0"
    assert overlay.pread(fd, 100, 10 << 20) == b""
    assert bytes(overlay.map(fd, 12)) == b"0123456789\0\0"
    overlay.pwrite(fd, b"ab", 12)
    assert (overlay.pread(fd, 6, 9), overlay.size(fd)) == (b"9\0\0ab\0", 10 << 20)
    overlay.truncate(fd, 11)
    assert (overlay.pread(fd, 100, 0), overlay.size(fd)) == (b"0123456789\0", 11)
    overlay.close(fd)


def test_room_that_is_only_made_takes_no_memory(overlay, path):
    fds = [overlay.open(f"{path}-{number}", os.O_RDWR | os.O_CREAT) for number in range(1000)]
    for fd in fds:
        overlay.truncate(fd, 1 << 40)  # a thousand terabytes
    assert {overlay.size(fd) for fd in fds} == {1 << 40}
    for fd in fds:
        overlay.close(fd)


def test_cut_file_that_grows_again_does_not_bring_back_what_was_cut(overlay, path):
    fd = overlay.open(path, os.O_RDWR)
    overlay.truncate(fd, 3)
    overlay.truncate(fd, 6)
    assert overlay.pread(fd, 100, 0) == b"012\0\0\0"
    overlay.close(fd)


@pytest.mark.parametrize(("change", "sent"), [(b"", b"2345"), (b"XY", b"2XY5")])
def test_stretch_goes_to_a_socket_from_the_disk_or_from_memory(overlay, path, change, sent):
    fd = overlay.open(path, os.O_RDWR)
    if change:
        overlay.pwrite(fd, change, 3)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert overlay.sendfile(ours.fileno(), fd, 2, 4) == 4
        assert theirs.recv(100) == sent
    overlay.close(fd)


def test_directory_that_is_forgotten_is_seen_as_it_is_on_the_disk(overlay, path):
    remove_file(overlay, path)
    replace_file(overlay, f"{path}-new", b"new")
    overlay.forget(os.path.dirname(path))
    assert overlay.exists(path)
    assert not overlay.exists(f"{path}-new")
    assert content(overlay, path) == b"0123456789"
