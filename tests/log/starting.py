"""Logs that are started again, and what is found then."""

from __future__ import annotations

from tests.log.making import NOW, log_in, produced


def crash(tmp_path, recovery_point=0):
    """Make a clean stop look like a crash that left `recovery_point` in the checkpoint."""
    (tmp_path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (tmp_path / "recovery-point-offset-checkpoint").write_text(f"0\n1\ntopic 0 {recovery_point}\n")


def segments_of_seven(tmp_path, count=100, **config):
    """Single records of 100 bytes, seven to a segment, an index entry every third."""
    log = log_in(tmp_path, segment_bytes=700, index_interval_bytes=250, **config)
    for number in range(count):
        log.append_as_leader(produced(size=100, timestamp=NOW + number))
    return log


def reopened(tmp_path, **config):
    return log_in(tmp_path, **{"segment_bytes": 700, "index_interval_bytes": 250, **config})


def file(tmp_path, name):
    """A file of the partition directory: `7.log` is `00000000000000000007.log`."""
    stem, dot, suffix = name.partition(".")
    return tmp_path / "topic-0" / (f"{stem:0>20}{dot}{suffix}" if stem.isdigit() else name)
