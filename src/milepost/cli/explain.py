"""`milepost explain DIR --offset N | --time T`: how a lookup finds its answer, step by step, and why not the records beside it.

Reads only: safe beside a running broker and on a copied directory. Exit code 0 whether there is an answer or not; 2 for a wrong
question; 3 for a directory that cannot be read.
"""

from __future__ import annotations

import json

import click

from milepost.cli.options.topic_options import topic_properties
from milepost.cli.terminal.sections import print_sections
from milepost.inspect.explain.explain import explain
from milepost.inspect.explain.explain_json import explanation_as_json
from milepost.inspect.explain.explain_text import explanation_as_text
from milepost.inspect.opening import open_partition
from milepost.inspect.times import parse_time


@click.command(name="explain", short_help="Show how an offset or a time is looked up, step by step.")
@click.argument("directory", metavar="DIR")
@click.option("--offset", type=int, metavar="N", help="Look up the first record at or after this offset.")
@click.option("--time", "time_text", metavar="T", help="Look up the first record not older: epoch ms, epoch s or ISO 8601.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
@topic_properties
def command(directory: str, offset: int | None, time_text: str | None, as_json: bool, settings: dict[str, str]) -> None:
    """Look up an offset or a time in the partition directory DIR and show every step of it.

    The segment, each index slot that was probed, the bytes that were walked, the answer, and why the records and index entries
    next to it are not the answer. The output says which unit of time was understood.
    """
    if (offset is None) == (time_text is None):
        raise click.UsageError("give --offset N or --time T, one of the two")
    time = None if time_text is None else parse_time(time_text)
    with open_partition(directory, settings) as log:
        explanation = explain(log, offset=offset, time=time and time.ms, unit=time and time.unit)
    if as_json:
        click.echo(json.dumps(explanation_as_json(explanation), indent=2, ensure_ascii=False))
    else:
        print_sections(explanation_as_text(explanation))
