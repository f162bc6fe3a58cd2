"""`milepost topics create|list|describe|delete`: the topics of a broker, over the wire.

Exit code 4 when the broker refuses (the topic is there already, the name is illegal) or is not there; 2 for wrong usage.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from milepost.cli.options.bootstrap import bootstrap_server, connect
from milepost.cli.options.key_values import pairs
from milepost.cli.terminal.columns import write_columns
from milepost.cli.terminal.output import line_writer
from milepost.codec.text import counted, shown

if TYPE_CHECKING:
    from milepost.client.cluster import Cluster
    from milepost.client.configs import ConfigEntry
    from milepost.client.metadata import TopicInfo


@click.group(name="topics", short_help="Create, list, describe and delete topics of a broker.")
def command() -> None:
    """Topics of a broker: ours, or any Kafka from 2.1 on."""


@command.command(name="create")
@click.argument("name")
@click.option(
    "--partitions", type=click.IntRange(min=1), metavar="N", help="How many. Default: what the broker says (num.partitions)."
)
@click.option(
    "--replication-factor", type=click.IntRange(min=1), metavar="R", help="Copies of each. Default: what the broker says."
)
@click.option(
    "--config", "configs", multiple=True, metavar="KEY=VALUE", callback=pairs, help="A topic property; as often as wanted."
)
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: list[tuple[str, str]],
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create the topic NAME."""
    from milepost.client.admin import create_topic

    with connect(bootstrap) as cluster:
        made = create_topic(cluster, name, partitions=partitions, replication_factor=replication_factor, configs=dict(configs))
    if as_json:
        fields = {"name": made.name, "partitions": made.partitions, "replication_factor": made.replication_factor}
        line_writer()(json.dumps(fields))
    else:
        sizes = f" with {counted(made.partitions, 'partition')}, {counted(made.replication_factor, 'replica')} each"
        told = sizes if made.partitions >= 0 else ""
        line_writer()(f"created topic {made.name}{told}")


@command.command(name="list")
@click.option("--internal", is_flag=True, help="Also the topics that brokers keep for themselves.")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per topic.")
def list_(internal: bool, bootstrap: str, as_json: bool) -> None:
    """List the topics, one a line."""
    from milepost.client.admin import list_topics

    with connect(bootstrap) as cluster:
        topics = [topic for topic in list_topics(cluster) if internal or not topic.is_internal]
    write = line_writer()
    for topic in topics:
        fields = {"name": topic.name, "partitions": len(topic.partitions), "is_internal": topic.is_internal}
        write(json.dumps(fields) if as_json else shown(topic.name))


@command.command(name="describe")
@click.argument("names", metavar="[NAME…]", nargs=-1)
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per topic.")
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Partitions, leaders and replicas of topics, and the settings that are not a default. Without NAME all but the internal ones."""
    from milepost.client.admin import list_topics

    write = line_writer()
    with connect(bootstrap) as cluster:
        if names:
            topics = [cluster.topic(name) for name in dict.fromkeys(names)]
        else:
            topics = [topic for topic in list_topics(cluster) if not topic.is_internal]
        for number, topic in enumerate(topics):
            changed = changed_settings(cluster, topic)
            if as_json:
                write(json.dumps(as_object(topic, changed)))
            else:
                if number:
                    write("")
                write_text(topic, changed)


@command.command(name="delete")
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per topic.")
def delete(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Delete topics, with all their records."""
    from milepost.client.admin import delete_topics

    with connect(bootstrap) as cluster:
        delete_topics(cluster, names)
    write = line_writer()
    for name in dict.fromkeys(names):
        write(json.dumps({"name": name, "deleted": True}) if as_json else f"deleted topic {shown(name)}")


def changed_settings(cluster: Cluster, topic: TopicInfo) -> list[ConfigEntry]:
    """The settings that somebody gave the topic itself."""
    from milepost.client.configs import ConfigSource, Resource, ResourceType, describe_configs

    entries = describe_configs(cluster, Resource(ResourceType.TOPIC, topic.name))
    return [entry for entry in entries if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG]


def as_object(topic: TopicInfo, changed: list[ConfigEntry]) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id_text,
        "is_internal": topic.is_internal,
        "configs": {entry.name: entry.value for entry in changed},
        "partitions": [
            {
                "partition": part.partition,
                "leader": part.leader_id,
                "leader_epoch": part.leader_epoch,
                "replicas": part.replicas,
                "isr": part.in_sync_replicas,
                "offline": part.offline_replicas,
            }
            for part in topic.partitions
        ],
    }


def write_text(topic: TopicInfo, changed: list[ConfigEntry]) -> None:
    write = line_writer()
    told = f", id {topic.topic_id_text}" if topic.topic_id_text else ""
    write(f"topic {shown(topic.name)}: {counted(len(topic.partitions), 'partition')}{told}")
    for entry in changed:
        write(f"{shown(entry.name)}={shown(entry.value or '')}")
    rows = [
        (
            part.partition,
            part.leader_id if part.leader_id >= 0 else None,
            part.leader_epoch,
            listed(part.replicas),
            listed(part.in_sync_replicas),
            listed(part.offline_replicas),
        )
        for part in topic.partitions
    ]
    write_columns(write, ("partition", "leader", "epoch", "replicas", "isr", "offline"), rows)


def listed(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes)) or "-"
