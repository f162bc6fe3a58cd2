"""What a user may say to a sink: the connector's names, and a few of our own.

    topic                          goes before the topic column
    path                           one data directory: topics are written as segment files
    kafka.bootstrap.servers        any broker: records are produced
    kafka.compression.type         none (default), gzip, snappy, lz4, zstd
    kafka.batch.size               bytes of a batch before compression                                        512 KiB; over the wire 64 KiB
    partitions                     of topics that do not exist yet                                            1         (path)
    segmentBytes                   segment.bytes of topics that are written                                   1 GiB     (path)
    timestampColumn                a timestamp column whose time the records get; otherwise the time of the write
    commitId                       NAME:NUMBER of a batch write that may be repeated: under one id it is written once     (path)
    stagingPath                    where tasks put their segments before the commit; next to the directory    (path)

    kafka.security.protocol, .sasl.*, .ssl.*    as for every client (`client/security`); files that they name have to be where tasks run

`kafka.acks` other than all is refused: a sink that loses what Spark has ticked off is of no use. Serializers are refused as by the
connector; `includeHeaders` is accepted as by the connector, which also writes headers whenever there is a column of them. Other producer
settings are left aside.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from milepost.client.security import NO_SECURITY, PREFIXES, SecuritySettings
from milepost.codec.compression import Codec
from milepost.errors import InvalidArgument
from milepost.spark.option_values import OptionMap, number, size
from milepost.spark.options import refuse_unknown
from milepost.spark.paths import absolute, parse_paths

logger = logging.getLogger("milepost.spark")

FILE_BATCH_BYTES = 512 << 10
WIRE_BATCH_BYTES = 64 << 10
MOST_BATCH_BYTES = 1_000_000
"""Kafka's brokers take batches of up to 1,048,588 bytes unless a topic says otherwise."""
TRANSACTIONAL = "transactional.id"
KNOWN = (
    "topic", "path", "partitions", "segmentBytes", "timestampColumn", "commitId", "stagingPath", "includeHeaders",
    "checkpointLocation", "queryName",
)  # fmt: skip
MEANT = {
    "subscribe": "topic", "topics": "topic", "bootstrap.servers": "kafka.bootstrap.servers", "servers": "kafka.bootstrap.servers",
    "compression": "kafka.compression.type", "codec": "kafka.compression.type", "numPartitions": "partitions",
}  # fmt: skip
USED = ("compression.type", "batch.size", "acks", "client.id")
# The connector sets these itself; a value of the user's would be lost, so it says so.
REFUSED = {"key.serializer": "keys", "value.serializer": "values"}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    path: str | None
    bootstrap_servers: str | None
    topic: str | None = None
    codec: Codec = Codec.NONE
    batch_bytes: int = FILE_BATCH_BYTES
    partitions: int = 1
    segment_bytes: int = 1 << 30
    timestamp_column: str | None = None
    staging_path: str | None = None
    commit_id: tuple[str, int] | None = None
    client_id: str = "milepost-spark"
    security: SecuritySettings = NO_SECURITY

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> SinkOptions:
        options = OptionMap(given)
        refuse_unknown(options, KNOWN, MEANT)
        kafka = {name[6:]: options[name] for name in options if name.startswith("kafka.")}
        for name, what in REFUSED.items():
            if name in kafka:
                raise InvalidArgument(
                    f"kafka.{name} cannot be set: {what} are written as they are; cast them to string or binary"
                )
        servers = kafka.pop("bootstrap.servers", "").strip() or None
        paths = parse_paths(options["path"]) if "path" in options else ()
        if len(paths) > 1:
            raise InvalidArgument(f"path names {len(paths)} directories; records are written to one")
        if not paths and servers is None:
            raise InvalidArgument("where to? give path, a data directory, or kafka.bootstrap.servers, such as localhost:9092")
        if TRANSACTIONAL in kafka:
            raise InvalidArgument(
                "kafka.transactional.id: brokers end a transaction with its producer, and Spark's tasks end before their batch is "
                "committed; write at least once and drop duplicates by a key, or write with path, which is exactly once"
            )
        if kafka.get("acks", "all") not in ("all", "-1"):
            raise InvalidArgument(
                f"kafka.acks is {kafka['acks']}; a sink waits for all replicas in sync: leave it out, or say all"
            )
        for name in sorted(kafka.keys() - set(USED)):
            if not name.startswith(PREFIXES):
                logger.info("kafka.%s has no effect on what is written", name)
        batch_bytes = number(OptionMap(kafka), "batch.size") or (FILE_BATCH_BYTES if paths else WIRE_BATCH_BYTES)
        return cls(
            path=absolute(paths[0], "path") if paths else None,
            bootstrap_servers=servers,
            topic=options.get("topic"),
            codec=_codec(kafka.get("compression.type", "none")),
            batch_bytes=min(batch_bytes, MOST_BATCH_BYTES),
            partitions=number(options, "partitions") or 1,
            segment_bytes=size(options, "segmentBytes") or 1 << 30,
            timestamp_column=options.get("timestampColumn"),
            staging_path=absolute(options["stagingPath"], "stagingPath") if options.get("stagingPath") else None,
            commit_id=_commit_id(options.get("commitId")),
            client_id=kafka.get("client.id", "milepost-spark"),
            security=SecuritySettings.of(kafka),
        )

    @property
    def staging(self) -> str:
        """Beside the data directory, on the same file system: inside it Kafka would take a directory for a partition."""
        assert self.path is not None
        if self.staging_path is not None:
            return self.staging_path
        parent, name = posixpath.split(self.path)
        return posixpath.join(parent, f".{name}.staging")


def _commit_id(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    name, _, number = text.rpartition(":")
    if not name or not number.isdecimal():
        raise InvalidArgument(f"commitId is {text!r}; NAME:NUMBER is expected, with a number that rises from write to write")
    return name, int(number)


def _codec(name: str) -> Codec:
    try:
        return Codec[name.strip().upper()]
    except KeyError:
        known = ", ".join(codec.name.lower() for codec in Codec)
        raise InvalidArgument(f"kafka.compression.type is {name!r}; {known} are possible") from None
