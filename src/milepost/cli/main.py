"""The program `milepost`: which commands there are, and what becomes of an error.

A command is the object `command` of the module of its name (`cli/dump.py`), which is imported only when it is called: `milepost
--help` reads the table below and nothing else. What a command raises on purpose ends as one sentence on the second stream and
the exit code of its class:

    0  fine    1  findings    2  wrong usage    3  directory, port or I/O    4  broker or network    130  interrupted

A command's module imports inside its functions what only its work needs (client, broker, cluster, Spark): with these at the top `--help`
and shell completion would take two to three times as long.

A reader that closes the pipe (`milepost dump … | head`) ends the program quietly.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module

import click

import milepost
from milepost.cli.terminal.output import EXIT_IO, Sentence, failed_output
from milepost.errors import MilepostError, PipelineMistakes

# What `milepost --help` says, in this order.
COMMANDS = {
    "serve": "Run a broker for any Kafka client.",
    "cluster": "Run several brokers with a ZooKeeper as one cluster.",
    "attach": "Serve copied directories to Kafka clients, read-only.",
    "topics": "Create, list, describe and delete topics of a broker.",
    "produce": "Send lines from the standard input as records.",
    "consume": "Print records of a topic.",
    "groups": "List and describe groups, their lag, and reset their offsets.",
    "users": "Create, list and delete users who log in by SCRAM.",
    "acls": "Create, list and delete ACLs, and say which one decides.",
    "zk": "Look at the znodes of a cluster: tree, get, watch.",
    "dump": "Show what is in log, index, snapshot and checkpoint files.",
    "explain": "Show how an offset or a time is looked up, step by step.",
    "verify": "Check every batch, record, index entry and checkpoint.",
    "repair": "Say how to make a damaged directory whole; --apply does it.",
    "tune": "Compare index and segment settings for a log, or for figures.",
    "pipeline": "Load, export and maintain large logs with Spark.",
    "config": "Show the settings, their values and where each comes from.",
}
EXIT_INTERRUPTED = 130


class CommandTable(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = f"milepost.cli.{cmd_name}"
        try:
            command = import_module(module).command
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise click.UsageError(f"this milepost was installed without the command {cmd_name!r}") from None
        assert isinstance(command, click.Command), f"{module}.command is a click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table: click would import every command to ask it for its help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        try:
            try:
                return super().invoke(ctx)
            finally:
                # Here a closed pipe can still be dealt with; at exit Python would complain.
                sys.stdout.flush()
        except PipelineMistakes as error:
            raise Sentence(str(error), error.exit_code, error.lines) from error
        except MilepostError as error:
            raise Sentence(str(error), error.exit_code) from error
        except BrokenPipeError as error:
            raise failed_output(error) from error
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise Sentence(f"{place}{error.strerror or error}", EXIT_IO) from error
        except (MemoryError, RecursionError) as error:
            raise Sentence(
                f"{type(error).__name__}: the input is larger or deeper than this machine can take", EXIT_IO
            ) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(milepost.__version__, prog_name="milepost", message="%(prog)s %(version)s")
def main() -> None:
    """The Kafka log in Python: look into log directories, explain lookups, verify and repair.

    Exit codes: 0 fine, 1 findings, 2 wrong usage, 3 directory, port or I/O, 4 broker or network.
    """
    # Bytes of hostile files and odd file names must not end in a traceback of the encoder.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    # The layers log what they do; a command says what matters itself.
    logging.getLogger("milepost").addHandler(logging.NullHandler())
