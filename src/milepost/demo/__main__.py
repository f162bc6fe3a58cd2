"""`python -m milepost.demo`: what is done, and what is said about it."""

from __future__ import annotations

import sys
import time

import click

from milepost.broker.embedded import EmbeddedBroker
from milepost.cli.terminal.output import Sentence, quiet_streams
from milepost.cli.terminal.sections import print_sections
from milepost.demo.clients import client_of
from milepost.demo.pipeline import OUT, WORK, run_pipeline, what_is_missing, write_pipeline
from milepost.demo.visits import (
    CONFIG,
    MORE_VISITS,
    PARTITIONS,
    SESSIONS,
    TOPIC,
    VISITS,
    more_visits,
    remove_previous,
    write_topic,
)
from milepost.errors import MilepostError
from milepost.files import Disk
from milepost.inspect.explain.explain import explain
from milepost.inspect.explain.explain_text import INDENT, Section, explanation_as_text, wrapped
from milepost.inspect.times import MILLISECONDS_UNIT, format_time
from milepost.log.open import open_log
from milepost.record.records import Record
from milepost.segment import names

DIRECTORY = "milepost-demo"
PIPELINE_DIRECTORY = "milepost-demo-pipeline"
PROGRAM = ".venv/bin/milepost"
GROUP = "demo"
ASKED_TIME = 1_526_384_718_288
ENTRY_SIZES = {names.INDEX: 8, names.TIME_INDEX: 12}


def main() -> int:
    try:
        demonstrate()
    except MilepostError as error:
        Sentence(str(error), error.exit_code).show()
        return error.exit_code
    except BrokenPipeError:
        quiet_streams()
    return 0


def demonstrate(directory: str = DIRECTORY) -> None:
    disk = Disk()
    remove_previous(directory, disk)
    write_topic(directory, disk)
    found = show_log(directory, disk)
    show_broker(directory, found)
    pipeline = show_pipeline(directory, disk)
    click.echo()
    print_sections([Section("What to try next", tuple(next_steps(directory, pipeline)))])


# The log.


def show_log(directory: str, disk: Disk) -> Record:
    """The files, and two lookups; the record the second one ends at."""
    with open_log(f"{directory}/{TOPIC}-0") as log:
        by_offset = explain(log, offset=log.end_offset * 2 // 3)
        by_time = explain(log, time=ASKED_TIME, unit=MILLISECONDS_UNIT)
        assert by_time.answer is not None, "the visits go on after the time that is asked for"
        record = next(log.records(start=by_time.answer.offset))
    print_sections(
        [
            Section(
                f"The topic {TOPIC} with {PARTITIONS} partitions, in ./{directory}",
                (
                    *wrapped(
                        f"{VISITS} visits, keyed by visitor: the hash of the key chooses the partition, as in Java's producer, "
                        f"so all visits of one visitor stay in order. segment.bytes is {CONFIG['segment.bytes']} and "
                        f"index.interval.bytes {CONFIG['index.interval.bytes']}, so that even a small log has many segments and entries."
                    ),
                    "",
                    *tree(directory, disk),
                ),
            ),
            Section("A LOOKUP BY OFFSET", ()),
            *explanation_as_text(by_offset),
            Section("A LOOKUP BY TIME", ()),
            *explanation_as_text(by_time),
            Section(
                "The record",
                (
                    f"{INDENT}offset {record.offset}   key {(record.key or b'').decode()}   value {(record.value or b'').decode()}",
                ),
            ),
        ]
    )
    return record


def tree(directory: str, disk: Disk) -> list[str]:
    """The partition directories with their sizes, and every file of the first one."""
    lines = [f"{INDENT}{directory}/"]
    for partition in range(PARTITIONS):
        path = f"{directory}/{TOPIC}-{partition}"
        files = sorted(disk.listdir(path))
        size = sum(disk.stat(f"{path}/{name}").st_size for name in files)
        segments = sum(name.endswith(names.LOG) for name in files)
        with open_log(path) as log:
            held = f"offsets 0 to {log.end_offset - 1}"
        lines.append(f"{INDENT * 2}{TOPIC}-{partition}/{held:>22} in {segments} segments, {len(files)} files, {size:,} bytes")
        if partition == 0:
            lines += [
                f"{INDENT * 3}{name:<36}{disk.stat(f'{path}/{name}').st_size:>8,}{_about(path, name, disk)}" for name in files
            ]
    return lines


def _about(path: str, name: str, disk: Disk) -> str:
    for suffix, entry_size in ENTRY_SIZES.items():
        if name.endswith(suffix):
            entries = disk.stat(f"{path}/{name}").st_size // entry_size
            return f"   {entries} entries of {entry_size} bytes"
    if name.endswith(names.LOG):
        return "   record batches"
    return "   producers and their sequences" if name.endswith(names.SNAPSHOT) else "   who led since which offset"


# The broker.


def show_broker(directory: str, found: Record) -> None:
    began = time.perf_counter()
    with EmbeddedBroker(directory) as broker:
        started = (time.perf_counter() - began) * 1000
        client = client_of(broker.bootstrap_servers)
        client.produce(TOPIC, more_visits())
        counts = client.consume(TOPIC, GROUP, VISITS + MORE_VISITS)
        offset = client.offset_for(TOPIC, 0, ASKED_TIME)
        shares = " + ".join(str(count) for _, count in sorted(counts.items()))
        same = (
            "the record that was explained above, found in the same way"
            if offset == found.offset
            else "another record than above"
        )
        lines = [
            *wrapped(
                f"milepost.Broker({directory!r}) listens on {broker.bootstrap_servers}, {started:.0f} ms after it was called."
            ),
            *wrapped(f"The client is {client.name}."),
            "",
            *wrapped(f"It produced {MORE_VISITS} more visits to {TOPIC}, by the same hash of the key."),
            *wrapped(
                f"It consumed {shares} = {sum(counts.values())} visits from the {len(counts)} partitions, "
                f"in the group {GROUP!r}, and committed."
            ),
            *wrapped(
                f"It asked for the first visit in partition 0 from {format_time(ASKED_TIME)} on: the broker says offset {offset}, {same}."
            ),
        ]
    click.echo()
    print_sections([Section("A BROKER OVER THE SAME DIRECTORY", tuple(lines))])


# The pipeline.


def show_pipeline(directory: str, disk: Disk) -> str | None:
    """Run the pipeline over the segments and say where everything is; its file, or None where Spark cannot run."""
    click.echo()
    missing = what_is_missing()
    if missing is not None:
        print_sections([Section("A SPARK PIPELINE OVER THE SAME SEGMENTS", tuple(wrapped(f"Not shown: {missing}.")))])
        return None
    file = write_pipeline(PIPELINE_DIRECTORY, directory, disk)
    print_sections(
        [
            Section(
                "A SPARK PIPELINE OVER THE SAME SEGMENTS",
                tuple(wrapped(f"{PROGRAM} pipeline run {file} takes a minute, most of it for Spark to start …")),
            )
        ]
    )
    began = time.perf_counter()
    told = run_pipeline(file, directory, disk)
    seconds = time.perf_counter() - began
    here = f"{disk.resolve('.')}/"
    lines = [
        "",
        *(part for line in told[:-1] for part in wrapped(line.replace(here, ""))),
        "",
        f"{INDENT}done after {seconds:.0f} seconds; all of it is here:",
        "",
        *(f"{INDENT * 2}{place:<44}{what}" for place, what in places(directory)),
    ]
    for line in lines:
        click.echo(line)
    return file


def places(directory: str) -> list[tuple[str, str]]:
    out = f"{PIPELINE_DIRECTORY}/{OUT}"
    return [
        (f"{out}/report.html", "the report: open it in a browser"),
        (f"{out}/{TOPIC}", "all visits, as Parquet by hour"),
        (f"{out}/sessions", "sessions of visitors, by a batch query"),
        (f"{out}/pages", "visits of pages in 10 seconds, by a stream"),
        (f"{directory}/{SESSIONS}-0", "the sessions again, as a topic"),
        (f"{PIPELINE_DIRECTORY}/{WORK}", "state, checkpoints and evidence"),
    ]


def next_steps(directory: str, pipeline: str | None) -> list[str]:
    partition = f"{directory}/{TOPIC}-0"
    commands = [
        f"{PROGRAM} explain {partition} --offset 42",
        f"{PROGRAM} explain {partition} --time 2018-05-15T11:45:00Z --json",
        f"{PROGRAM} dump {partition}/{names.file_name(0, names.INDEX)}",
        f"{PROGRAM} dump {partition} --print-data-log",
        f"{PROGRAM} verify {directory}",
        f"{PROGRAM} tune {partition}",
        *([f"{PROGRAM} pipeline run {pipeline} --dry-run"] if pipeline is not None else []),
        "",
        f"{PROGRAM} serve --data {directory}",
        "",
        "and, while that runs, in another terminal:",
        "",
        f"{PROGRAM} consume {TOPIC} --from-beginning --max-messages 5 --print offset,key,value",
        f"{PROGRAM} groups describe {GROUP}",
        f"{PROGRAM} topics describe {TOPIC}",
    ]
    return [f"{INDENT}{command}".rstrip() for command in commands]


if __name__ == "__main__":
    sys.exit(main())
