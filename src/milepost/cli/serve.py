"""`milepost serve`: run a broker until it is told to stop.

Settings come from a `.properties` file, from the environment (`KAFKA_LOG_SEGMENT_BYTES`) and from `-X`, each above
the one before; `--data` and `--port` are the two that everybody needs. The last line it prints when it is up is
`ready HOST:PORT`. SIGTERM and SIGINT stop it cleanly.
"""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType

import click

from milepost.cli.topic_options import topic_properties
from milepost.config.broker import BrokerConfig
from milepost.config.sources import from_environment, from_file, from_flags, resolve
from milepost.files import Disk, read_file


@click.command("serve")
@click.option("--data", metavar="DIR", help="The data directory. Default: ./milepost-data")
@click.option("--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1; 0 takes a free one. Default: 9092")
@click.option("--config", "config_file", metavar="FILE", help="A .properties file with Kafka's property names.")
@topic_properties
@click.option("-v", "--verbose", is_flag=True, help="Say what happens, on the second stream.")
def command(data: str | None, port: int | None, config_file: str | None, settings: dict[str, str], verbose: bool) -> None:
    """Run a broker: any Kafka client can produce to it and consume from it."""
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(message)s")
    flags = dict(settings)
    if data is not None:
        flags["log.dirs"] = data
    if port is not None:
        flags["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    sources = [from_environment(os.environ), from_flags([f"{name}={value}" for name, value in flags.items()])]
    if config_file is not None:
        sources.insert(0, from_file(read_file(Disk(), config_file).decode("utf-8", "replace"), config_file))
    resolved = resolve(BrokerConfig, *sources)
    for warning in resolved.warnings():
        click.echo(f"warning: {warning}", err=True)
    serve(resolved.config)


def serve(config: BrokerConfig) -> None:
    # Here and not at the top: `milepost serve --help` needs no broker.
    from milepost.broker.broker import Broker

    broker = Broker(config)
    broker.start()

    def stop(number: int, frame: FrameType | None) -> None:
        broker.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    address = broker.bootstrap_servers
    click.echo(f"data directory   {', '.join(config.directories)}")
    click.echo(f"for a client     bootstrap.servers={address}")
    click.echo(f"ready {address}")
    try:
        broker.run()
    finally:
        broker.close()
