"""`milepost verify PATH…`: one line per finding and exit code 1, or a summary and exit code 0."""

from __future__ import annotations

import json

import click

from milepost.cli.terminal.output import line_writer
from milepost.cli.terminal.progress import progress_bar
from milepost.files import Disk
from milepost.inspect.dump.decoders import shown
from milepost.inspect.dump.dump import log_bytes
from milepost.inspect.verify.findings import Report
from milepost.inspect.verify.verify import verify


@click.command(name="verify", short_help="Check every batch, record, index entry and checkpoint.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path())
@click.option("--headers-only", is_flag=True, help="Batch headers and checksums, not every record: quicker.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per finding and note, and one with the counts.")
@click.option("--quiet", is_flag=True, help="Findings only: no notes, no summary.")
def command(paths: tuple[str, ...], headers_only: bool, as_json: bool, quiet: bool) -> None:
    """Check files, partition directories or data directories, without changing anything.

    A finding says where, what, and what to do about it. A note says what is normal where it stands, such as the torn end of a log whose
    broker was killed. Exit code 1 when there is a finding.
    """
    disk, report = Disk(), Report()
    with progress_bar("verify", sum(log_bytes(disk, path) for path in paths)) as progress:
        for path in paths:
            verify(path, headers_only=headers_only, disk=disk, report=report, progress=progress)
    write = line_writer()
    for finding in report.findings:
        write(json.dumps(finding.as_json()) if as_json else shown(str(finding)))
    if not quiet:
        for note in report.notes:
            write(json.dumps(note.as_json()) if as_json else shown(f"note: {note}"))
        write(json.dumps(report.as_json()) if as_json else report.summary())
    if not report.is_clean:
        raise click.exceptions.Exit(1)
