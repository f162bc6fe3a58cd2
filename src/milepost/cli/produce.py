"""`milepost produce TOPIC`: every line of the standard input is a record.

A line ends at a newline and is taken byte for byte; the last one needs none. Lines are sent as they come: at a terminal each at once, from
a file or pipe in batches. When all are acknowledged by every replica in sync the program says where they went.

Exit code 4 when the broker refuses or is not there; the sentence says how many records were acknowledged before that.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from milepost.cli.options.bootstrap import bootstrap_server, connect
from milepost.cli.options.key_values import pairs
from milepost.cli.terminal.output import Sentence, line_writer
from milepost.codec.text import counted
from milepost.errors import InvalidArgument, MilepostError

if TYPE_CHECKING:
    from milepost.client.producer import Delivery
    from milepost.topic_partition import TopicPartition

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_BYTES = 1 << 20
MAX_LINE = 100 << 20
"""Kafka's bound for a whole request: a longer line could not be sent anyway."""


@click.command(name="produce", short_help="Send lines from the standard input as records.")
@click.argument("topic")
@click.option("--key-separator", metavar="TEXT", help=r"What stands between key and value in a line; \t is a tab.")
@click.option("--null-marker", metavar="TEXT", help="A key or value that is exactly this text is null: a tombstone, for a value.")
@click.option(
    "--partition", type=click.IntRange(min=0), metavar="P", help="The partition. Default: by the key, as Java's producer does."
)
@click.option("--header", "headers", multiple=True, metavar="KEY=VALUE", callback=pairs, help="A header of every record.")
@click.option("--compression", type=click.Choice(CODECS), default="none", help="How batches are compressed.")
@click.option("--batch-size", type=click.IntRange(min=1), metavar="BYTES", help="The largest batch. Default: 65536")
@click.option("--no-idempotence", is_flag=True, help="Without a producer id: a lost answer may store a batch twice.")
@bootstrap_server
@click.option("--json", "as_json", is_flag=True, help="One JSON object per partition, when done.")
def command(
    topic: str,
    key_separator: str | None,
    null_marker: str | None,
    partition: int | None,
    headers: list[tuple[str, str]],
    compression: str,
    batch_size: int | None,
    no_idempotence: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Send every line of the standard input to TOPIC, and say where they went."""
    from milepost.client.producer import BATCH_SIZE, Producer
    from milepost.codec.compression import Codec

    separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode("utf-8", "surrogateescape")
    if separator == b"":
        raise click.UsageError("--key-separator is empty")
    null = None if null_marker is None else null_marker.encode("utf-8", "surrogateescape")
    told = tuple((key, value.encode("utf-8", "surrogateescape")) for key, value in headers)
    stream = sys.stdin.buffer
    done = Acknowledged()
    with connect(bootstrap) as cluster:
        # Before the first line: who types a text should not learn afterwards that nobody was listening.
        cluster.topic(topic, may_create=True)
        if stream.isatty():
            click.echo(f"each line becomes a record of {topic}; end with Ctrl-D", err=True)
        producer = Producer(
            cluster,
            codec=Codec[compression.upper()],
            is_idempotent=not no_idempotence,
            batch_size=batch_size or BATCH_SIZE,
            delivered=done.add,
        )
        number = 0
        try:
            for lines in chunks_of_lines(stream):
                for line in lines:
                    number += 1
                    key, value = split(line, number, separator, null)
                    producer.send(topic, value, key=key, headers=told, partition=partition)
                producer.flush()
        except MilepostError as error:
            raise Sentence(f"{error} ({done.count} of {number} records were acknowledged)", error.exit_code) from error
    done.write(as_json)


def chunks_of_lines(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that one read completes, and in the end what is left."""
    # Reads what is there, so that a line typed at a terminal does not wait for more of them.
    read = getattr(stream, "read1", stream.read)
    rest = bytearray()
    while data := read(READ_BYTES):
        rest += data
        *lines, unfinished = bytes(rest).split(b"\n") if b"\n" in data else (bytes(rest),)
        if lines:
            rest = bytearray(unfinished)
            yield lines
        if len(rest) > MAX_LINE:
            raise InvalidArgument(f"a line is longer than {MAX_LINE} bytes, which no broker takes in one request")
    if rest:
        yield [bytes(rest)]


def split(line: bytes, number: int, separator: bytes | None, null: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Key and value of a line."""
    key: bytes | None = None
    value: bytes | None = line
    if separator is not None:
        key, found, value = line.partition(separator)
        if not found:
            raise InvalidArgument(
                f"line {number} has no {separator.decode('utf-8', 'replace')!r} between key and value: {line[:40]!r}"
            )
    return (None if key == null else key), (None if value == null else value)


class Acknowledged:
    """Where the records went: per partition how many, and from which offset to which."""

    def __init__(self) -> None:
        self.count = 0
        self._ranges: dict[TopicPartition, tuple[int, int, int]] = {}

    def add(self, delivery: Delivery) -> None:
        self.count += delivery.count
        first, _, count = self._ranges.get(delivery.partition, (delivery.base_offset, 0, 0))
        self._ranges[delivery.partition] = (first, delivery.base_offset + delivery.count - 1, count + delivery.count)

    def write(self, as_json: bool) -> None:
        write = line_writer()
        for partition in sorted(self._ranges):
            first, last, count = self._ranges[partition]
            if as_json:
                fields = {"topic": partition.topic, "partition": partition.partition, "first_offset": first, "last_offset": last}
                write(json.dumps({**fields, "records": count}))
            else:
                write(f"{partition}: {counted(count, 'record')}, " + (f"offset {first}" if first == last else f"offsets {first} to {last}"))
        sys.stdout.flush()
