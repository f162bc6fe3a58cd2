"""`milepost repair DIR`: what would make a damaged directory whole; with `--apply` it is done."""

from __future__ import annotations

import json

import click

from milepost.cli.options.topic_options import topic_properties
from milepost.cli.terminal.output import line_writer
from milepost.config.topic import LogConfig
from milepost.inspect.dump.decoders import shown
from milepost.inspect.repair.repair import Plan, plan_repair
from milepost.inspect.repair.repair_apply import apply_repair, ensure_unowned
from milepost.inspect.verify.findings import counted


@click.command(name="repair", short_help="Say how to make a damaged directory whole; --apply does it.")
@click.argument("directory", metavar="DIR", type=click.Path())
@click.option("--apply", "is_applied", is_flag=True, help="Make the changes. What they replace is kept.")
@click.option("--keep", type=click.Path(), metavar="DIR", help="Where to keep it (default: beside the data directory).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per change, and one with the result.")
@topic_properties
def command(directory: str, is_applied: bool, keep: str | None, as_json: bool, settings: dict[str, str]) -> None:
    """Repair a partition directory or a data directory that no broker has open.

    Without --apply nothing is changed. Damaged bytes in the middle of a log become a gap in its offsets, so fetch them from a replica
    first if there is one. Exit code 1 while there is something to repair, or something that cannot be repaired.
    """
    if is_applied:
        ensure_unowned(directory)
    plan = plan_repair(directory, LogConfig.parse(settings))
    write = line_writer()
    for step in plan.steps:
        write(json.dumps({"type": "change", "file": step.file, "what": step.what}) if as_json else shown(str(step)))
    kept = None
    changes = len(plan.steps)
    if is_applied and changes:
        kept, plan = apply_repair(plan, keep)
    for finding in plan.unrepaired:
        write(json.dumps(finding.as_json()) if as_json else shown(f"cannot be repaired: {finding}"))
    if as_json:
        result = {
            "type": "result",
            "changes": changes,
            "applied": kept is not None,
            "kept": kept,
            "unrepaired": len(plan.unrepaired),
        }
        write(json.dumps(result))
    else:
        write(shown(sentence(plan, changes, kept)))
    if not plan.is_empty or plan.unrepaired:
        raise click.exceptions.Exit(1)


def sentence(plan: Plan, changes: int, kept: str | None) -> str:
    """How it ended."""
    if not changes:
        return "nothing to repair" if not plan.unrepaired else "nothing that can be repaired here"
    if kept is None:
        return f"{counted(changes, 'change')} to make; run again with --apply to make {'it' if changes == 1 else 'them'}"
    left = "" if plan.is_empty else f", {counted(len(plan.steps), 'change')} still to make"
    return f"{counted(changes, 'change')} made{left}; what was replaced is kept in {kept}"
