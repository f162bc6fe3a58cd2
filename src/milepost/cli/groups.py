"""`milepost groups list|describe|delete|reset`: consumer groups of a broker, how far they are behind, and where they go on.

A reset shows what it would do; only `--execute` does it. A group is reset while nobody is in it. Offsets outside of the log are moved to
its nearest end. Exit code 4 when the broker refuses (no such group, the group has members) or is not there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from milepost.cli.options.bootstrap import bootstrap_server, connect
from milepost.cli.terminal.columns import write_columns
from milepost.cli.terminal.output import line_writer
from milepost.codec.text import counted, shown
from milepost.errors import InvalidArgument, RequestFailed
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    from milepost.client.cluster import Cluster
    from milepost.client.groups import GroupDescription, PartitionLag
    from milepost.topic_partition import TopicPartition


@click.group(name="groups", short_help="List and describe groups, their lag, and reset their offsets.")
def command() -> None:
    """Consumer groups of a broker."""


@command.command(name="list")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per group.")
def list_(bootstrap: str, as_json: bool) -> None:
    """List the groups with their state and type."""
    from milepost.client.groups import list_groups

    with connect(bootstrap) as cluster:
        found = list_groups(cluster)
    write = line_writer()
    if as_json:
        for each in found:
            write(
                json.dumps(
                    {"group": each.group_id, "state": each.state, "type": each.group_type, "protocol_type": each.protocol_type}
                )
            )
    elif found:
        write_columns(
            write, ("group", "state", "type"), [(each.group_id, each.state or None, each.group_type or None) for each in found]
        )


@command.command(name="describe")
@click.argument("group")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object for the group, and one per partition.")
def describe(group: str, bootstrap: str, as_json: bool) -> None:
    """The state of GROUP, and for each partition where it is, where the log ends and how much lies between."""
    from milepost.client.groups import describe_group, group_lag

    with connect(bootstrap) as cluster:
        described = describe_group(cluster, group)
        rows = group_lag(cluster, described)
    if as_json:
        write_json(described, rows)
    else:
        write_text(described, rows)


@command.command(name="delete")
@click.argument("group")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def delete(group: str, bootstrap: str, as_json: bool) -> None:
    """Delete GROUP with its offsets. It must have no members."""
    from milepost.client.groups import delete_group

    with connect(bootstrap) as cluster:
        delete_group(cluster, group)
    line_writer()(json.dumps({"group": group, "deleted": True}) if as_json else f"deleted group {shown(group)}")


@command.command(name="reset")
@click.argument("group")
@click.option("--to-earliest", is_flag=True, help="To the first record that is still there.")
@click.option("--to-latest", is_flag=True, help="To the end: only what comes from now on.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--to-time", metavar="T", help="To the first record that is not older: epoch ms, epoch s or ISO 8601.")
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[:P,…]", help="Only this topic, or these partitions. Default: all it has."
)
@click.option("--execute", is_flag=True, help="Do it. Without this it is only shown.")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per partition.")
def reset(
    group: str,
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    to_time: str | None,
    topics: tuple[str, ...],
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Move where GROUP goes on, in the partitions it has committed in or in those of --topic."""
    if to_earliest + to_latest + (to_offset is not None) + (to_time is not None) != 1:
        raise click.UsageError("--to-earliest, --to-latest, --to-offset and --to-time: give one of them")
    from milepost.client.offsets import EARLIEST, LATEST, commit, committed
    from milepost.inspect.times import parse_time

    asked = EARLIEST if to_earliest else LATEST if to_time is None else parse_time(to_time).ms
    with connect(bootstrap) as cluster:
        ensure_inactive(cluster, group)
        before = {partition: place.offset for partition, place in committed(cluster, group).items()}
        partitions = [each for text in topics for each in named(cluster, text)] or sorted(before)
        if not partitions:
            raise InvalidArgument(f"group {group} has committed nothing: name the topics with --topic")
        after = targets(cluster, partitions, asked, to_offset)
        if execute:
            commit(cluster, group, after)
    write_reset(before, after, execute, as_json)


def ensure_inactive(cluster: Cluster, group: str) -> None:
    from milepost.client.groups import describe_group
    from milepost.protocol.error_codes import ErrorCode

    try:
        described = describe_group(cluster, group)
    except RequestFailed as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return  # a reset may come before the first consumer
        raise
    if not described.is_inactive:
        raise RequestFailed(
            f"group {group} is {described.state} with {counted(len(described.members), 'member')}: stop them first, then reset it",
            ErrorCode.NON_EMPTY_GROUP,
        )


def named(cluster: Cluster, text: str) -> list[TopicPartition]:
    """The partitions that `TOPIC` or `TOPIC:0,2` names."""
    topic, colon, listed = text.partition(":")
    there = [part.partition for part in cluster.topic(topic).partitions]
    if not colon:
        return [TopicPartition(topic, number) for number in there]
    numbers = [int(number) if number.strip().isdigit() else -1 for number in listed.split(",")]
    wrong = [number for number in numbers if number not in there]
    if wrong:
        raise InvalidArgument(f"{text!r} names a partition that is not there: topic {topic} has 0 to {len(there) - 1}")
    return [TopicPartition(topic, number) for number in dict.fromkeys(numbers)]


def targets(cluster: Cluster, partitions: list[TopicPartition], asked: int, to_offset: int | None) -> dict[TopicPartition, int]:
    from milepost.client.offsets import EARLIEST, LATEST, ends, list_offsets

    last = ends(cluster, partitions, LATEST)
    if to_offset is not None:
        first = ends(cluster, partitions, EARLIEST)
        return {each: min(max(to_offset, first[each]), last[each]) for each in partitions}
    found = list_offsets(cluster, dict.fromkeys(partitions, asked))
    # Nothing is as new as that: the group waits for what comes.
    return {each: last[each] if (hit := found[each]) is None else hit.offset for each in partitions}


def write_reset(before: dict[TopicPartition, int], after: dict[TopicPartition, int], executed: bool, as_json: bool) -> None:
    write = line_writer()
    if as_json:
        for each, offset in after.items():
            fields = {"topic": each.topic, "partition": each.partition, "committed": before.get(each), "new_offset": offset}
            write(json.dumps({**fields, "executed": executed}))
        return
    rows = [(each.topic, each.partition, before.get(each), offset) for each, offset in after.items()]
    write_columns(write, ("topic", "partition", "committed", "new offset"), rows)
    if not executed:
        click.echo("nothing was changed: --execute does it", err=True)


def write_json(group: GroupDescription, rows: list[PartitionLag]) -> None:
    write = line_writer()
    members = [{"member_id": each.member_id, "client_id": each.client_id, "host": each.host} for each in group.members]
    fields = {"group": group.group_id, "state": group.state, "type": group.group_type, "assignor": group.assignor}
    write(json.dumps({**fields, "members": members}))
    for row in rows:
        place = {"topic": row.partition.topic, "partition": row.partition.partition}
        owner = row.member.member_id if row.member else None
        write(json.dumps({**place, "committed": row.committed, "end_offset": row.end_offset, "lag": row.lag, "member_id": owner}))


def write_text(group: GroupDescription, rows: list[PartitionLag]) -> None:
    write = line_writer()
    assignor = f", assignor {shown(group.assignor)}" if group.assignor else ""
    write(f"group {shown(group.group_id)}: {group.state}, {group.group_type}, {counted(len(group.members), 'member')}{assignor}")
    lines = [
        (
            row.partition.topic,
            row.partition.partition,
            row.committed,
            row.end_offset,
            row.lag,
            row.member.client_id if row.member else None,
            row.member.host if row.member else None,
        )
        for row in rows
    ]
    if lines:
        write_columns(write, ("topic", "partition", "committed", "end", "lag", "client", "host"), lines)
