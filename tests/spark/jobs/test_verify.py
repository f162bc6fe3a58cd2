"""Verification in stretches finds what verification in one walk finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.files import Disk
from milepost.inspect.findings import Report
from milepost.inspect.verify import verify as walk
from milepost.spark.jobs.stretch import stretches
from milepost.spark.jobs.stretch_check import check_stretch
from milepost.spark.jobs.verify import join
from milepost.spark.log_files.listing import list_partitions
from tests.golden_fixture import Golden, index

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
