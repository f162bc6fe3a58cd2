"""`milepost dump PATH…`: what is in the files, in the words of kafka-dump-log or as JSON."""

from __future__ import annotations

import click

from milepost.cli.terminal.output import line_writer
from milepost.cli.terminal.progress import progress_bar
from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.inspect.dump.decoders import DECODERS, TOOLS
from milepost.inspect.dump.dump import Dump, Options, View, log_bytes
from milepost.inspect.dump.dump_json import JsonView
from milepost.inspect.dump.dump_text import TextView
from milepost.inspect.dump.filters import Filter, parse_range
from milepost.inspect.times import parse_time
from milepost.inspect.transaction_states import STATES


@click.command(name="dump", short_help="Show what is in the files of a log.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--deep-iteration", is_flag=True, help="One line per record.")
@click.option("--print-data-log", is_flag=True, help="Keys and payloads too (implies --deep-iteration).")
@click.option("--skip-record-metadata", is_flag=True, help="Of a record only its key and payload.")
@click.option("--max-bytes", type=click.IntRange(min=0), metavar="N", help="Only the first N bytes of each .log file.")
@click.option("--offsets-decoder", is_flag=True, help="Records of __consumer_offsets (told by the directory's name otherwise).")
@click.option("--transaction-log-decoder", is_flag=True, help="Records of __transaction_state (likewise).")
@click.option("--decoder", type=click.Choice(DECODERS), default="auto", help="How keys and payloads are shown.")
@click.option("--like", "tool", type=click.Choice(TOOLS), default=TOOLS[0], help="Whose text for __transaction_state.")
@click.option("--offsets", "offsets", metavar="FROM:TO", help="Only these offsets, both ends included; either may be left out.")
@click.option("--offset-from", type=int, metavar="N", help="Only offsets from N on.")
@click.option("--offset-to", type=int, metavar="N", help="Only offsets up to N.")
@click.option("--time-from", metavar="TIME", help="Only records not older than TIME (epoch ms, epoch s or ISO 8601).")
@click.option("--time-to", metavar="TIME", help="Only records not newer than TIME.")
@click.option("--key", metavar="TEXT", help="Only records with exactly this key.")
@click.option("--producer-id", type=int, metavar="N", help="Only batches of this producer.")
@click.option("--transaction-state", type=click.Choice(STATES), help="Only batches whose transaction ended like this.")
def command(
    paths: tuple[str, ...],
    as_json: bool,
    deep_iteration: bool,
    print_data_log: bool,
    skip_record_metadata: bool,
    max_bytes: int | None,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    decoder: str,
    tool: str,
    offsets: str | None,
    offset_from: int | None,
    offset_to: int | None,
    time_from: str | None,
    time_to: str | None,
    key: str | None,
    producer_id: int | None,
    transaction_state: str | None,
) -> None:
    """Show the content of files, partition directories or data directories.

    Any file of a log will do: .log .index .timeindex .txnindex .snapshot, checkpoints, partition.metadata, meta.properties. A batch is
    shown when at least one of its records passes all filters. Exit code 1 when something is damaged; a torn end of a log is not.
    """
    if offsets is not None:
        if offset_from is not None or offset_to is not None:
            raise InvalidArgument("--offsets stands for --offset-from and --offset-to: give the one or the others")
        offset_from, offset_to = parse_range(offsets)
    if offsets_decoder or transaction_log_decoder:
        decoder = "offsets" if offsets_decoder else "transaction-log"
    options = Options(
        deep_iteration,
        print_data_log or offsets_decoder or transaction_log_decoder,
        skip_record_metadata,
        max_bytes,
        decoder,
        tool,
        Filter(
            offset_from,
            offset_to,
            None if time_from is None else parse_time(time_from).ms,
            None if time_to is None else parse_time(time_to).ms,
            None if key is None else key.encode("utf-8", "surrogateescape"),
            producer_id,
            transaction_state,
        ),
    )
    view: View = JsonView(options, line_writer()) if as_json else TextView(options, line_writer(), line_writer(err=True))
    disk = Disk()
    with progress_bar("dump", sum(log_bytes(disk, path) for path in paths)) as progress:
        shown = Dump(disk, options, view, progress)
        for path in paths:
            shown.path(path)
        view.finish()
    if shown.damaged:
        raise click.exceptions.Exit(1)
