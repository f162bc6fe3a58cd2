"""Lines to the standard streams, many of them.

click.echo looks at the terminal for every line, which costs more than making the line. A stream that fails ends the program,
not the file that was being shown: a reader that went away (`… | head`) quietly, with the code a shell gives to a program that a
closed pipe ended; a full disk with a sentence.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence

import click

EXIT_IO = 3
EXIT_CLOSED_PIPE = 141


class Sentence(click.ClickException):
    """An error that ends the program: one sentence on the second stream, or one for each of several mistakes; one exit code."""

    def __init__(self, message: str, exit_code: int, lines: Sequence[str] = ()):
        super().__init__(" ".join(message.split()))
        self.code = exit_code
        self.lines = [" ".join(line.split()) for line in lines] or [self.message]

    @property
    def exit_code(self) -> int:  # type: ignore[override]
        return self.code

    def show(self, file: object = None) -> None:
        for line in self.lines:
            click.echo(f"milepost: {line}", err=True)


def line_writer(err: bool = False) -> Callable[[str], None]:
    stream = sys.stderr if err else sys.stdout

    def write(line: str) -> None:
        try:
            stream.write(line + "\n")
        except OSError as error:
            raise failed_output(error) from error

    return write


def failed_output(error: OSError) -> Exception:
    """How the program ends when its output cannot be written."""
    if isinstance(error, BrokenPipeError):
        quiet_streams()
        return click.exceptions.Exit(EXIT_CLOSED_PIPE)
    return Sentence(f"standard output: {error.strerror or error}", EXIT_IO)


def quiet_streams() -> None:
    """Python flushes its standard streams at exit and complains about a closed pipe; nobody is left to read either."""
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
