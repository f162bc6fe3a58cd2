"""Running the program in this process: exit code, what it printed, what it said on the second stream."""

from __future__ import annotations

from typing import NamedTuple

from click.testing import CliRunner

from milepost.cli.main import main


class Ran(NamedTuple):
    code: int
    lines: list[str]
    errors: list[str]


def run(*arguments: object, env: dict[str, str] | None = None, stdin: bytes | None = None) -> Ran:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], env=env, input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout.splitlines(), result.stderr.splitlines())
