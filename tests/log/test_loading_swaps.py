"""What a start does with files on their way in or out: deleted, cleaned, swapped."""

from __future__ import annotations

import shutil

from tests.log.making import NOW, log_in, names, offsets
from tests.log.starting import file, reopened, segments_of_seven
from tests.segment.making import batch


def test_deleted_files_are_removed_and_those_of_the_metadata_log_are_left(tmp_path):
    segments_of_seven(tmp_path, 3).close()
    for name in ("7.log.deleted", "7.index.deleted", "7.snapshot.deleted"):
        file(tmp_path, name).write_bytes(b"x")
    kept = file(tmp_path, "00000000000000000007-0000000001.checkpoint.deleted")
    kept.write_bytes(b"x")
    log = reopened(tmp_path)
    assert names(log, ".deleted") == ["7-0000000001.checkpoint.deleted"]
    assert log.segments.base_offsets() == [0]


def with_suffix(tmp_path, base, suffix):
    """Rename the files of a segment as a cleaning does."""
    for path in (tmp_path / "topic-0").glob(f"{base:020d}.*"):
        if path.suffix in (".log", ".index", ".timeindex"):
            path.rename(f"{path}{suffix}")


def cleaned_copy(tmp_path, base, data, suffix):
    """A segment that a cleaning has written."""
    other = tmp_path / "cleaning"
    log = log_in(other, index_interval_bytes=250)
    log.truncate_fully_and_start_at(base)
    log.append_as_follower(data)
    log.close()
    for kind in (".log", ".index", ".timeindex"):
        shutil.copy(file(other, f"{base}{kind}"), f"{file(tmp_path, f'{base}{kind}')}{suffix}")


def test_unfinished_cleaning_is_undone_with_every_swap_at_or_above_it(tmp_path):
    segments_of_seven(tmp_path, 30).close()
    file(tmp_path, "7.log.cleaned").write_bytes(batch(7, timestamp=NOW))
    file(tmp_path, "14.log.swap").write_bytes(batch(14, timestamp=NOW))
    log = reopened(tmp_path)
    assert offsets(log) == list(range(30))
    assert not [name for name in names(log) if name.endswith((".cleaned", ".swap"))]


def test_swap_below_an_unfinished_cleaning_is_finished(tmp_path):
    segments_of_seven(tmp_path, 30).close()
    cleaned_copy(tmp_path, 0, batch(3, timestamp=NOW), ".swap")
    file(tmp_path, "7.log.cleaned").write_bytes(batch(7, timestamp=NOW))
    assert offsets(reopened(tmp_path)) == [3, *range(7, 30)]


def test_finished_cleaning_replaces_the_segments_it_covers(tmp_path):
    segments_of_seven(tmp_path, 30).close()
    data = batch(2, timestamp=NOW) + batch(5, timestamp=NOW) + batch(11, timestamp=NOW)
    cleaned_copy(tmp_path, 0, data, ".swap")
    log = reopened(tmp_path)
    assert log.segments.base_offsets() == [0, 14, 21, 28]
    assert offsets(log) == [2, 5, 11, *range(14, 30)]
    assert not names(log, ".swap")


def test_swap_whose_old_segments_are_deleted_already_is_finished(tmp_path):
    segments_of_seven(tmp_path, 21).close()
    cleaned_copy(tmp_path, 0, batch(3, timestamp=NOW), ".swap")
    with_suffix(tmp_path, 0, ".deleted")
    log = reopened(tmp_path)
    assert offsets(log) == [3, *range(7, 21)]
    assert not names(log, ".deleted")


def test_swap_of_indexes_alone_is_renamed_and_checked(tmp_path):
    segments_of_seven(tmp_path, 10).close()
    for suffix in (".index", ".timeindex"):
        path = file(tmp_path, f"0{suffix}")
        path.rename(f"{path}.swap")
    log = reopened(tmp_path)
    assert offsets(log) == list(range(10))
    assert not names(log, ".swap")
