"""`milepost consume TOPIC`: print records as they come, until told to stop.

Where it starts, partition by partition: at `--offset` or `--time`; else where `--group` last committed; else at the beginning
(`--from-beginning`) or at the end. It stops after `--max-messages`, after `--timeout` seconds without a record, or at SIGINT or SIGTERM;
each is a clean end with exit code 0. With `--group` what was printed is committed every few seconds and at the end, as by a
consumer that chose its partitions itself; a group with members refuses that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from milepost.cli.options.bootstrap import bootstrap_server, connect
from milepost.cli.terminal.output import Sentence
from milepost.cli.terminal.stopping import stop_on_signals
from milepost.errors import InvalidArgument
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.cli.terminal.record_output import RecordOutput
    from milepost.client.cluster import Cluster
    from milepost.client.consumer import Consumer
    from milepost.record.records import Record
    from milepost.topic_partition import TopicPartition

FIELDS = ("timestamp", "partition", "offset", "key", "headers", "value")
ISOLATION = ("read_uncommitted", "read_committed")
POLL_SECONDS = 0.5
COMMIT_SECONDS = 5.0


def fields(context: click.Context, parameter: click.Parameter, given: str) -> list[str]:
    names = [name.strip() for name in given.split(",")]
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(FIELDS)}")
    return names


@click.command(name="consume", short_help="Print records of a topic.")
@click.argument("topic")
@click.option(
    "--from-beginning", is_flag=True, help="From the first record that is still there. Default: only what comes from now on."
)
@click.option("--offset", type=click.IntRange(min=0), metavar="N", help="From this offset, in every partition.")
@click.option("--time", "time_text", metavar="T", help="From the first record that is not older: epoch ms, epoch s or ISO 8601.")
@click.option(
    "--partition", "numbers", type=click.IntRange(min=0), multiple=True, metavar="P", help="Only this partition; repeatable."
)
@click.option("--max-messages", type=click.IntRange(min=1), metavar="N", help="Stop after so many records.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop when no record came for so long.")
@click.option("--group", metavar="GROUP", help="Go on where this group is, and commit what was printed.")
@click.option(
    "--isolation", type=click.Choice(ISOLATION), default=ISOLATION[0], help="Only committed transactions, or all there is."
)
@click.option("--skip-damaged", is_flag=True, help="Go on behind records that cannot be read, and say which those are.")
@click.option("--print", "shown", default="value", metavar="FIELDS", callback=fields, help=f"Which of {','.join(FIELDS)}.")
@click.option("--separator", default="\t", metavar="TEXT", help="What stands between the fields. Default: a tab")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
def command(
    topic: str,
    from_beginning: bool,
    offset: int | None,
    time_text: str | None,
    numbers: tuple[int, ...],
    max_messages: int | None,
    timeout: float | None,
    group: str | None,
    isolation: str,
    skip_damaged: bool,
    shown: list[str],
    separator: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Print the records of TOPIC as they come."""
    if from_beginning + (offset is not None) + (time_text is not None) > 1:
        raise click.UsageError("--from-beginning, --offset and --time: give one of them")
    from milepost.cli.terminal.record_output import RecordOutput
    from milepost.client.consumer import Consumer
    from milepost.client.offsets import EARLIEST, LATEST
    from milepost.inspect.times import parse_time

    since = None if time_text is None else parse_time(time_text).ms
    with stop_on_signals() as stop, connect(bootstrap) as cluster:
        partitions = chosen(cluster, topic, numbers)
        level = ISOLATION.index(isolation)
        end = EARLIEST if from_beginning else LATEST
        positions = starts(cluster, partitions, end, offset, since, group, level)
        # An offset that was asked for and is not there is an error; one that a group left behind is not.
        reset = None if offset is not None else end
        with Consumer(cluster, positions, isolation=level, reset=reset) as consumer:
            reader = Reading(consumer, RecordOutput(shown, separator, as_json), group, skip_damaged)
            last_record = time.monotonic()
            while not stop.is_asked and reader.count != max_messages:
                if reader.take(None if max_messages is None else max_messages - reader.count, wait(timeout, last_record)):
                    last_record = time.monotonic()
                elif timeout is not None and time.monotonic() - last_record >= timeout:
                    break
            reader.commit()


def wait(timeout: float | None, last_record: float) -> float:
    """How long to wait for records: short, so that a signal is heard, and not past the timeout."""
    left = POLL_SECONDS if timeout is None else timeout - (time.monotonic() - last_record)
    return min(POLL_SECONDS, max(left, 0.0))


def chosen(cluster: Cluster, topic: str, numbers: tuple[int, ...]) -> list[TopicPartition]:
    there = [part.partition for part in cluster.topic(topic).partitions]
    for number in numbers:
        if number not in there:
            raise InvalidArgument(f"topic {topic} has partitions 0 to {len(there) - 1}, not {number}")
    return [TopicPartition(topic, number) for number in (dict.fromkeys(numbers) if numbers else there)]


def starts(
    cluster: Cluster,
    partitions: list[TopicPartition],
    end: int,
    offset: int | None,
    since: int | None,
    group: str | None,
    level: int,
) -> dict[TopicPartition, int]:
    from milepost.client.offsets import LATEST, committed, ends, list_offsets

    if offset is not None:
        return dict.fromkeys(partitions, offset)
    if since is not None:
        found = list_offsets(cluster, dict.fromkeys(partitions, since), level)
        newest = ends(cluster, partitions, LATEST, level)
        return {each: newest[each] if (hit := found[each]) is None else hit.offset for each in partitions}
    known = {each: place.offset for each, place in committed(cluster, group).items()} if group is not None else {}
    unknown = [each for each in partitions if each not in known]
    fresh = ends(cluster, unknown, end, level)
    return {each: known[each] if each in known else fresh[each] for each in partitions}


class Reading:
    """Records from a consumer to the output, and what was printed to the group."""

    def __init__(self, consumer: Consumer, output: RecordOutput, group: str | None, skips_damaged: bool):
        self.consumer = consumer
        self.output = output
        self.group = group
        self.skips_damaged = skips_damaged
        self.count = 0
        self._printed: dict[TopicPartition, int] = {}
        self._committed_at = time.monotonic()

    def take(self, most: int | None, seconds: float) -> int:
        """Print up to `most` of the records that come within `seconds`; how many."""
        before = self.count
        for partition, records in self._poll(seconds).items():
            if most is not None:
                records = records[: max(0, most - (self.count - before))]
            for record in records:
                self.output.write(partition, record)
            self.count += len(records)
            if records:
                self._printed[partition] = records[-1].offset + 1
        self.output.flush()
        if time.monotonic() - self._committed_at >= COMMIT_SECONDS:
            self.commit()
        return self.count - before

    def _poll(self, seconds: float) -> dict[TopicPartition, list[Record]]:
        from milepost.client.damage import DamagedRecords

        try:
            return self.consumer.poll(seconds)
        except DamagedRecords as damage:
            if damage.next_offset is None:
                raise
            if not self.skips_damaged:
                raise Sentence(f"{damage}: --skip-damaged goes on there", damage.exit_code) from damage
            click.echo(f"warning: {damage}", err=True)
            self.consumer.seek(damage.partition, damage.next_offset)
            return {}

    def commit(self) -> None:
        from milepost.client.offsets import commit

        self._committed_at = time.monotonic()
        if self.group is not None and self._printed:
            commit(self.consumer.cluster, self.group, self._printed)
            self._printed = {}
