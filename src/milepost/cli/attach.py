"""`milepost attach`: serve directories to Kafka clients without changing anything in them.

Prints what `milepost serve` prints, and before that a line for each topic and a line for whatever had to be recovered, or cannot be
read. All of that is in memory: the files stay as they are, also when the broker that owns them is still running.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import click

from milepost.cli.options.broker_properties import broker_properties
from milepost.cli.serve import broker_config, labelled, log_to_second_stream, run
from milepost.codec.text import counted

if TYPE_CHECKING:
    from milepost.broker.kinds.attached import AttachedBroker
    from milepost.cluster.view import TopicState
    from milepost.log.manager import LogManager


@click.command("attach", short_help="Serve copied directories to Kafka clients, read-only.")
@click.argument("directories", metavar="DIR…", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1; 0 takes a free one. Default: 9092")
@broker_properties
@click.option("-v", "--verbose", is_flag=True, help="Say what happens, on the second stream.")
def command(directories: tuple[str, ...], port: int | None, properties: dict[str, str], verbose: bool) -> None:
    """Serve partition directories or data directories (copies, backups, or of a broker that runs) read-only.

    Clients may consume, in groups too; whatever would write is refused, and no byte, name or time of the directories changes.
    """
    # Here and not at the top: `milepost attach --help` needs no broker.
    from milepost.broker.kinds.attached import AttachedBroker
    from milepost.broker.lifecycle import Life

    # What recovery has to say is printed below, once.
    log_to_second_stream(logging.INFO if verbose else logging.ERROR)
    broker = AttachedBroker(directories, broker_config(properties, port))
    life = Life(broker)
    life.start()
    run(life, lines(broker))


def lines(broker: AttachedBroker) -> Iterator[str]:
    for directory in broker.logs.directories:
        yield labelled("data directory", directory.path)
    for _, topic in sorted(broker.cluster.topics.items()):
        yield labelled("topic", about(topic, broker))
    for recovery in recoveries(broker.logs):
        yield labelled("in memory", recovery)
    for remark in remarks(broker.logs):
        yield labelled("note", remark)
    yield labelled("checksums", checksums(broker.logs))


def about(topic: TopicState, broker: AttachedBroker) -> str:
    """`page_visits: 5 partitions, 1653 offsets`."""
    partitions = [each for name, each in broker.replicas.partitions.items() if name.topic == topic.name]
    offsets = sum(partition.log.end_offset - partition.log.start_offset for partition in partitions)
    text = f"{topic.name}: {counted(len(partitions), 'partition')}, {counted(offsets, 'offset')}"
    if len(partitions) < topic.partitions:
        here = ranges([partition.name.partition for partition in partitions])
        text += f"; of its partitions 0-{topic.partitions - 1} only {here} {'is' if len(partitions) == 1 else 'are'} here"
    return text


def ranges(numbers: list[int]) -> str:
    """`0, 3-5`."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def recoveries(logs: LogManager) -> Iterator[str]:
    """What loading had to do, in memory, to show the logs: a sentence each."""
    for partition, report in logs.reports.items():
        if report.read_through:
            total = len(logs.logs[partition].segments)
            read = len(report.read_through)
            were = "was" if read == 1 else "were"
            yield f"{partition} was not closed cleanly: {read} of its {counted(total, 'segment')} {were} read through"
        if report.rebuilt:
            yield f"{partition}: indexes that did not fit their log were built anew for {counted(len(report.rebuilt), 'segment')}"
        yield from report.notes


def checksums(logs: LogManager) -> str:
    """How far the checksums of the batches were looked at: loading does that only where a log was not closed cleanly."""
    total = sum(len(log.segments) for log in logs.logs.values())
    checked = sum(len(report.recovered) for report in logs.reports.values())
    if not checked:
        return "not checked, the logs were closed cleanly; milepost verify checks them"
    if checked >= total:
        return f"checked in {f'all {total} segments' if total > 1 else 'the only segment'}"
    return f"checked in {checked} of {total} segments; milepost verify checks all"


def remarks(logs: LogManager) -> Iterator[str]:
    """What whoever reads these logs should know: a sentence each."""
    for partition, log in logs.logs.items():
        for hole in (hole for segment in log.segments for hole in segment.log.holes):
            yield (
                f"{partition}: offsets {hole.first_offset} to {hole.next_offset - 1} are damaged; reading them is an error, "
                f"{hole.next_offset} is the next that can be read"
            )
        if log.last_stable_offset < log.end_offset:
            yield (
                f"{partition}: a transaction is open since offset {log.last_stable_offset}; consumers with read_committed "
                f"stop there, before the end at {log.end_offset}"
            )
