"""`milepost pipeline schema`: what may stand in a pipeline file, as a JSON Schema."""

from __future__ import annotations

import json

import click

from milepost.cli.terminal.output import line_writer


@click.command(name="schema", short_help="The JSON Schema of pipeline files, for editors.")
def command() -> None:
    """Print the JSON Schema of pipeline files.

    An editor that knows YAML schemas completes and checks with it: save it as pipeline.schema.json and begin the file with
    "# yaml-language-server: $schema=pipeline.schema.json".
    """
    from milepost.spark.pipeline.file_schema import json_schema

    line_writer()(json.dumps(json_schema(), indent=2))
