"""`milepost cluster start|status|stop|kill|restart`: several brokers on one machine, with a ZooKeeper, as processes of their own.

They go on when the command ends; the other commands find them by `--data`. Exit code 0 when all is well; `status` ends with 1 when
a broker is missing or a partition has fewer replicas in sync than it should; 3 for a port that is taken, 4 for a broker that does not
come up, 2 for a wrong number.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from milepost.cli.options.broker_properties import broker_properties
from milepost.cli.terminal.output import Sentence, line_writer
from milepost.codec.text import counted

if TYPE_CHECKING:
    from milepost.cluster.local.cluster import LocalCluster

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_DATA = "milepost-cluster"
DEFAULT_PORT = 9092
LOOK_SECONDS = 0.1
EXIT_NOT_IN_SYNC = 4


def cluster_directory(command: F) -> F:
    option = click.option(
        "--data", metavar="DIR", default=DEFAULT_DATA, help=f"Where the cluster's files are. Default: ./{DEFAULT_DATA}"
    )
    return option(command)


def json_output(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="One JSON object.")(command)


@click.group(name="cluster", short_help="Run several brokers with a ZooKeeper as one cluster.")
def command() -> None:
    """Several brokers on this machine as one cluster, with ZooKeeper; they go on in the background."""


@command.command(name="start")
@click.option(
    "-n", "count", type=click.IntRange(1, 99), metavar="N", help="How many brokers. Default: 3, or as many as there were."
)
@cluster_directory
@click.option(
    "--port-base",
    type=click.IntRange(0, 65000),
    default=DEFAULT_PORT,
    metavar="P",
    help=f"Brokers listen on P, P+1, …; 0 takes free ports. Default: {DEFAULT_PORT}",
)
@click.option("--zookeeper", metavar="HOST:PORT[/PATH]", help="One that runs already. Default: one of its own, with Java.")
@broker_properties
@json_output
def start(count: int | None, data: str, port_base: int, zookeeper: str | None, properties: dict[str, str], as_json: bool) -> None:
    """Start a cluster, or one that was stopped, and return when all of it is up."""
    from milepost.cluster.local.cluster import LocalCluster

    before = time.monotonic()
    cluster = LocalCluster.planned(data, count, zookeeper=zookeeper, port_base=port_base, properties=properties)
    cluster.start()
    taken = time.monotonic() - before
    write = line_writer()
    if as_json:
        write(json.dumps({**as_object(cluster), "seconds": round(taken, 3)}))
        return
    write_processes(cluster)
    write(f"for a client     bootstrap.servers={cluster.bootstrap_servers}")
    write(f"up after {taken:.1f} s; it goes on in the background until `milepost cluster stop --data {data}`")


@command.command(name="stop")
@cluster_directory
@json_output
def stop(data: str, as_json: bool) -> None:
    """Stop all brokers one after the other, each politely, then ZooKeeper if it was started here. All data stay."""
    from milepost.cluster.local.cluster import LocalCluster

    cluster = LocalCluster.found(data)
    numbers = [broker.broker_id for broker in cluster.running()]
    cluster.stop()
    told = f"stopped {listed(numbers)}" if numbers else "no broker was running"
    line_writer()(json.dumps({"stopped": numbers}) if as_json else told)


@command.command(name="kill")
@click.argument("broker_id", metavar="N", type=int)
@cluster_directory
@json_output
def kill(broker_id: int, data: str, as_json: bool) -> None:
    """End broker N at once (kill -9), as a failing machine would."""
    from milepost.cluster.local.cluster import LocalCluster

    pid = LocalCluster.found(data).kill_broker(broker_id)
    line_writer()(json.dumps({"killed": broker_id, "pid": pid}) if as_json else f"killed broker {broker_id}, pid {pid}")


@command.command(name="restart")
@click.argument("broker_ids", metavar="N…", type=int, nargs=-1, required=True)
@cluster_directory
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0),
    default=120.0,
    metavar="SECONDS",
    help="For each to be in sync. Default: 120",
)
@json_output
def restart(broker_ids: tuple[int, ...], data: str, seconds: float, as_json: bool) -> None:
    """Stop broker N politely if it runs, start it, and wait until all its replicas are in sync; several in turn."""
    from milepost.cluster.local.cluster import LocalCluster

    cluster = LocalCluster.found(data)
    for number in broker_ids:
        cluster.broker(number)
    write = line_writer()
    for number in broker_ids:
        before = time.monotonic()
        if cluster.broker(number).is_running:
            cluster.stop_broker(number)
        cluster.start_broker(number)
        process = cluster.broker(number).process
        assert process is not None
        wait_in_sync(cluster, number, seconds)
        taken = time.monotonic() - before
        fields = {"restarted": number, "pid": process.pid, "seconds": round(taken, 3)}
        write(
            json.dumps(fields) if as_json else f"broker {number} runs with pid {process.pid} and is in sync after {taken:.1f} s"
        )


@command.command(name="status")
@cluster_directory
@click.option("--internal", is_flag=True, help="Also the partitions of topics that brokers keep for themselves.")
@click.option("--under-replicated", is_flag=True, help="Only partitions that have fewer replicas in sync than they should.")
@json_output
@click.pass_context
def status(context: click.Context, data: str, internal: bool, under_replicated: bool, as_json: bool) -> None:
    """Controller, epochs, brokers, leaders and in-sync replicas, as ZooKeeper has them."""
    from milepost.cli.cluster_status import show
    from milepost.cluster.local.cluster import LocalCluster

    context.exit(0 if show(LocalCluster.found(data), internal, under_replicated, as_json) else 1)


def wait_in_sync(cluster: LocalCluster, broker_id: int, seconds: float) -> None:
    from milepost.cluster.overview import overview
    from milepost.cluster.zookeeper.reader import ZooKeeperReader

    deadline = time.monotonic() + seconds
    with ZooKeeperReader(cluster.zookeeper) as reader:
        while not (now := overview(reader)).is_in_sync(broker_id):
            if time.monotonic() > deadline:
                behind = [part for part in now.partitions if broker_id in part.replicas and broker_id not in part.isr]
                raise Sentence(
                    f"broker {broker_id} runs, but is behind in {counted(len(behind), 'partition')} after {seconds:g} seconds",
                    EXIT_NOT_IN_SYNC,
                )
            time.sleep(LOOK_SECONDS)


def as_object(cluster: LocalCluster) -> dict[str, object]:
    zookeeper = cluster.record.zookeeper
    return {
        "data": cluster.directory,
        "bootstrap_servers": cluster.bootstrap_servers,
        "zookeeper": {"connect": zookeeper.connect, "pid": zookeeper.process.pid if zookeeper.process else None},
        "brokers": [
            {"broker": broker.broker_id, "address": broker.address, "pid": broker.process.pid if broker.process else None}
            for broker in cluster.record.brokers.values()
        ],
    }


def write_processes(cluster: LocalCluster) -> None:
    write = line_writer()
    write(f"data directory   {cluster.directory}")
    zookeeper = cluster.record.zookeeper
    write(f"ZooKeeper        {zookeeper.connect}" + (f", pid {zookeeper.process.pid}" if zookeeper.process else ""))
    for broker in cluster.record.brokers.values():
        write(f"{f'broker {broker.broker_id}':<17}{broker.address}" + (f", pid {broker.process.pid}" if broker.process else ""))


def listed(numbers: list[int]) -> str:
    return f"broker{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
