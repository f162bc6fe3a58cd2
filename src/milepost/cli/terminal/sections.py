"""Sections of text on the standard output: headings bold on a terminal, plain when piped."""

from __future__ import annotations

from collections.abc import Iterable

import click

from milepost.inspect.explain.explain_text import Section


def print_sections(sections: Iterable[Section]) -> None:
    for number, section in enumerate(sections):
        if number:
            click.echo()
        click.secho(section.heading, bold=True)
        for line in section.lines:
            click.echo(line)
