"""Verification in stretches finds what verification in one walk finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.codec.crc32c import crc32c
from milepost.files import Disk
from milepost.inspect.verify.findings import Report
from milepost.inspect.verify.verify import verify as walk
from milepost.spark.jobs.stretch import stretches
from milepost.spark.jobs.stretch_check import check_stretch
from milepost.spark.jobs.verify import join
from milepost.spark.log_files.listing import list_partitions
from tests.golden_fixture import Golden, index
from tests.inspect.logs import batch, partition

UNCLEAN = [
    case for case in index() if case.startswith(("unclean/", "transactions/", "compaction/", "idempotence/", "leader_epochs/"))
]


def in_stretches(data: Path) -> list[str]:
    disk = Disk()
    found = []
    for files in list_partitions(disk, (str(data),)).partitions.values():
        report = join(disk, files, [check_stretch(stretch, False) for stretch in stretches(files, 1)])
        found += [str(finding) for finding in (*report.findings, *report.notes)]
    return sorted(found)


def in_one_walk(data: Path) -> list[str]:
    report = Report()
    for directory in sorted(path for path in data.iterdir() if path.is_dir()):
        walk(str(directory), report=report)
    return sorted(str(finding) for finding in (*report.findings, *report.notes))


@pytest.mark.parametrize("case", UNCLEAN)
def test_a_golden_directory_gives_the_findings_of_one_walk(case: str, golden: Golden) -> None:
    data = golden(case) / "logdir"
    assert in_stretches(data) == in_one_walk(data)


def test_epochs_whose_batches_were_compacted_away_are_no_finding(tmp_path: Path) -> None:
    segments = [(0, [batch(0, partition_leader_epoch=1)]), (100, [batch(110, partition_leader_epoch=5)])]
    directory = partition(tmp_path, *segments)
    (directory / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n4 60\n5 80\n")
    (directory / f"{100:020d}.snapshot").write_bytes(b"\0\1" + crc32c(bytes(4)).to_bytes(4, "big") + bytes(4))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 100\n")
    [files] = list_partitions(Disk(), (str(tmp_path),)).partitions.values()
    assert len(stretches(files, 1)) == 2
    assert in_stretches(tmp_path) == []
