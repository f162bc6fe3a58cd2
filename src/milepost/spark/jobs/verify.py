"""Checking whole data directories on all cores: every batch, record, index entry, snapshot and checkpoint.

    result = verify(spark, "data")
    result.details["findings"]

Reads only, takes no lock, and may run beside a broker. Findings and notes are those of `milepost verify`, in the order of their files.
With `output`, they also become a table there, in Parquet, replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.files import Disk
from milepost.inspect.paths import PathKind, look_at
from milepost.inspect.verify.findings import Finding, Report
from milepost.inspect.verify.verify import check_data_directory_files
from milepost.spark.jobs.job import FINDINGS, Job, JobResult
from milepost.spark.jobs.parquet_table import write_table
from milepost.spark.jobs.stretch import all_stretches
from milepost.spark.jobs.stretch_check import Checked, StretchCheck, add_counts, check_stretch
from milepost.spark.jobs.tasks import Progress, nobody_watches, run_tasks
from milepost.spark.log_files.listing import Listing, PartitionFiles, list_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE = 256 << 20
"""Bytes of a stretch: a task of half a second."""
FINDING_COLUMNS = {
    "type": "string",
    "file": "string",
    "position": "bigint",
    "what": "string",
    "advice": "string",
    "repairable": "boolean",
}


def verify(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    headers_only: bool = False,
    output: str | None = None,
    share: int = SHARE,
    evidence: str | None = None,
    progress: Progress = nobody_watches,
) -> JobResult:
    """Check data directories or partition directories. The outcome is "findings" when there are any; they are in `details`."""
    named = (paths,) if isinstance(paths, str) else tuple(paths)
    inputs = {"paths": list(named), "headers_only": headers_only}
    with Job("verify", inputs, evidence, spark) as job:
        disk = Disk()
        report = Report()
        for path in named:
            _verify_path(spark, disk, path, headers_only, share, report, progress)
        report.findings.sort(key=_place)
        report.notes.sort(key=_place)
        job.count(
            partitions=report.partitions, segments=report.segments, batches=report.batches, records=report.records,
            bytes=report.bytes, findings=len(report.findings), notes=len(report.notes),
        )  # fmt: skip
        rows = [finding.as_json() for finding in (*report.findings, *report.notes)]
        job.details["findings"] = rows
        if output is not None:
            write_table(disk, output, FINDING_COLUMNS, rows)
        if report.findings:
            job.outcome = FINDINGS
    return job.result


def _verify_path(
    spark: SparkSession, disk: Disk, path: str, headers_only: bool, share: int, report: Report, progress: Progress
) -> None:
    target = look_at(disk, path)
    if target.kind is PathKind.DATA:
        check_data_directory_files(disk, target.path, report)
    listing = list_partitions(disk, (path,))
    _note_skipped(listing, report)
    tasks = all_stretches(listing, share)
    checked = run_tasks(spark, tasks, partial(check_stretch, headers_only=headers_only), progress)
    by_directory: dict[str, list[Checked]] = {}
    for part in checked:
        by_directory.setdefault(part.stretch.directory, []).append(part)
    for files in listing.partitions.values():
        add_counts(report, join(disk, files, by_directory.get(files.directory, [])))


def join(disk: Disk, files: PartitionFiles, parts: Sequence[Checked]) -> Report:
    """What there is to say about one partition, from its checked stretches."""
    check = StretchCheck(disk, files.directory, Report())
    check.run_whole(sorted(parts, key=lambda part: part.stretch.bases[0]))
    return check.report


def _note_skipped(listing: Listing, report: Report) -> None:
    """Directories that were passed over; single files are the business of the partition they lie in."""
    for skipped in listing.skipped:
        if skipped.reason.startswith(("a directory marked", "another replica", "a symbolic link")):
            report.add(Finding(skipped.path, f"not looked into: {skipped.reason}", is_note=True))


def _place(finding: Finding) -> tuple[str, int]:
    return finding.file, finding.position or 0
