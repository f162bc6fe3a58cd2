"""`milepost serve`: run a broker until it is told to stop.

Settings come from a `.properties` file, from the environment (`KAFKA_LOG_SEGMENT_BYTES`) and from `-X`, each above
the one before; `--data` and `--port` are the two that everybody needs. The last line it prints when it is up is
`ready HOST:PORT`. SIGTERM and SIGINT stop it cleanly. `--secure` makes all that an encrypted broker with a login needs on one machine
(`broker/secure_setup`).
"""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
from collections.abc import Iterable
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.options.broker_properties import broker_properties
from milepost.cli.terminal.output import EXIT_IO, Sentence
from milepost.config.broker import BrokerConfig
from milepost.config.security import is_secured, open_listeners
from milepost.config.sources import from_environment, from_file, from_flags, resolve
from milepost.errors import InvalidConfiguration, MilepostError
from milepost.files import Disk, read_file

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.lifecycle import Life

logger = logging.getLogger("milepost.cli")

DEFAULT_PORT = 9092


@click.command("serve")
@click.option("--data", metavar="DIR", help="The data directory. Default: ./milepost-data")
@click.option("--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1; 0 takes a free one. Default: 9092")
@click.option("--config", "config_file", metavar="FILE", help="A .properties file with Kafka's property names.")
@click.option("--secure", is_flag=True, help="Encrypted, with a login: makes certificates and a user beside the data directory.")
@broker_properties
@click.option("-v", "--verbose", is_flag=True, help="Say what happens, on the second stream.")
def command(
    data: str | None, port: int | None, config_file: str | None, secure: bool, properties: dict[str, str], verbose: bool
) -> None:
    """Run a broker: any Kafka client can produce to it and consume from it."""
    # Here and not at the top: `milepost serve --help` needs no broker.
    from milepost.broker.idle_collection import IdleCollection
    from milepost.broker.lifecycle import Life
    from milepost.log.load_report import summary

    log_to_second_stream(logging.INFO if verbose else logging.WARNING)
    if data is not None:
        properties["log.dirs"] = data
    client_config = None
    if secure:
        from milepost.broker.secure_setup import secure_setup

        made, client_config = secure_setup(data or BrokerConfig().log_dir, DEFAULT_PORT if port is None else port)
        properties, port = {**made, **properties}, None
    config = broker_config(properties, port, config_file)
    broker = broker_for(config)
    life = Life(broker)
    life.start()
    IdleCollection(broker.server.loop).start()
    lines = [labelled("data directory", ", ".join(config.directories))]
    if broker.adopted:
        lines.append(labelled("adopted", f"{', '.join(broker.adopted)}: found without settings, so nothing is deleted by age"))
    if recovered := summary(broker.logs.reports.values()):
        lines.append(labelled("recovered", recovered))
    if client_config is not None:
        lines.append(labelled("client's file", f"{client_config} (for --client-config, kafka-topics --command-config and the like)"))
    run(life, lines)


def broker_config(properties: dict[str, str], port: int | None, file: str | None = None) -> BrokerConfig:
    """What flags, environment and file say together; what they say in vain is named in a warning."""
    sources = [from_environment(os.environ), from_flags(f"{name}={value}" for name, value in properties.items())]
    if file is not None:
        sources.insert(0, from_file(read_file(Disk(), file).decode("utf-8", "replace"), file))
    if port is not None:
        # It says where to listen, and takes back nothing of what the listeners promise that it replaces.
        if is_secured(resolve(BrokerConfig, *sources, from_flags(["milepost.insecure.listener=true"])).config):
            raise InvalidConfiguration(f"--port {port} would replace listeners that are more than plain text: give it in listeners.")
        sources.append(from_flags([f"listeners=PLAINTEXT://127.0.0.1:{port}"]))
    resolved = resolve(BrokerConfig, *sources)
    for warning in resolved.warnings():
        warn(warning)
    return resolved.config


def broker_for(config: BrokerConfig) -> Broker:
    """One of a cluster where a ZooKeeper is named, else one that is alone: of its modules a broker loads what it needs."""
    if config.zookeeper_connect is None:
        from milepost.broker.kinds.alone import AloneBroker

        return AloneBroker(config)
    try:
        from milepost.broker.kinds.zookeeper import ZooKeeperBroker
        from milepost.cluster.zookeeper import kazoo_session  # noqa: F401
    except ImportError as missing:
        raise InvalidConfiguration(f"zookeeper.connect needs kazoo ({missing}): pip install 'milepost[zookeeper]'") from missing
    return ZooKeeperBroker(config)


def run(life: Life[Any], lines: Iterable[str]) -> None:
    """Serve until a signal comes. The broker is started; what it has to say is said first."""
    broker: Broker = life.broker

    def stop(number: int, frame: FrameType | None) -> None:
        life.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        for host in (listener.host for listener in open_listeners(broker.config)):
            warn(f"it listens on {host} without authentication: every client that can connect may read and write everything")
        metrics = broker.metrics_endpoint
        if metrics is not None and not ipaddress.ip_address(metrics.host).is_loopback:
            warn(
                f"metrics are served on {metrics.host} without authentication: every client sees the names and sizes of all topics"
            )
        for line in lines:
            click.echo(line)
        if broker.config.request_channel_mode == "pooled":
            click.echo(labelled("request handlers", "pooled, to see Kafka's threads at work: inline is many times faster"))
        click.echo(labelled("for a client", f"bootstrap.servers={broker.bootstrap_servers}"))
        if metrics is not None:
            click.echo(labelled("for Prometheus", metrics.url))
        click.echo(f"ready {broker.bootstrap_servers}")
        life.run()
    except (MilepostError, OSError):
        raise
    except Exception as error:
        # A bug of ours in a place where nobody can be told but the one who started it.
        logger.error("the broker stops", exc_info=error)
        raise Sentence(
            f"the broker stopped because of an error in milepost itself, {type(error).__name__}: {error}; "
            "the next start checks its logs from the last checkpoint on",
            EXIT_IO,
        ) from error
    finally:
        life.close()


def labelled(label: str, text: str) -> str:
    return f"{label:<17}{text}"


def warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def log_to_second_stream(level: int) -> None:
    # As Kafka's own log begins a line.
    logging.basicConfig(level=level, format="[%(asctime)s] %(levelname)s %(message)s")
