"""How one log behaves: Kafka's topic properties, with Kafka's names, defaults and rules.

`LogConfig` is read on every append, so each property is a plain slot: `config.segment_bytes` is `segment.bytes`.
`LogConfig.parse(given, broker=...)` takes what is given, else the broker's synonym (`log.segment.bytes`), else
the default below.

Where Kafka's versions differ, and what is not Kafka's:
- `message.timestamp.after.max.ms` has no limit by default, as before 4.0, so that data from elsewhere can be
  appended again whatever its clock said; 4.0 sets one hour.
- `segment.bytes` may be as small as 14, as before 4.0. Kafka 4.3 takes sizes under 1 MiB only as
  `internal.segment.bytes`; that name is accepted and wins over `segment.bytes`.
- `message.timestamp.difference.max.ms` (gone in 4.0) is used for before and after where those have no limit.
- `message.format.version` is accepted and, as since 3.0, has no effect: records are written in format 2.
- `segment.index.bytes` from 4 on is valid for Kafka; a time index needs 24 to hold an entry and not count as full.
- `remote.storage.enable` may not be true: there is no tiered storage here.
- `index.profile` is ours: which Kafka's index files to match byte for byte (`per-batch`: 3.9.1 and later,
  `per-append`: 2.4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from milepost.config.configuration import Configuration
from milepost.config.definition import LIST, LONG_MAX, B, D, I, L, S, Value, declare
from milepost.errors import InvalidConfiguration
from milepost.frozen_dataclass import frozen_dataclass

DAY_MS = 24 * 60 * 60 * 1000
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
THROTTLED = {"pattern": r"\*|[0-9]+:[0-9]+", "pattern_doc": "partition:broker pairs between commas, or *"}
VERSION = {"pattern": r"[0-9]+(\.[0-9]+)*(-IV[0-9]+)?", "pattern_doc": "a Kafka version such as 2.4 or 3.0-IV1"}


class TopicDefaults(Protocol):
    """A broker's properties, as far as topics inherit them."""

    def topic_defaults(self) -> dict[str, Value]:
        """The topic properties, by Kafka's names, that a topic has when it sets none itself."""
        ...


@frozen_dataclass
class LogConfig(Configuration):
    kind: ClassVar[str] = "topic property"
    aliases: ClassVar[Mapping[str, str]] = {"internal.segment.bytes": "segment.bytes"}

    cleanup_policy: tuple[str, ...] = declare(
        LIST,
        ("delete",),
        "delete: drop old segments; compact: keep the last value of each key; both; or neither",
        choices=("compact", "delete"),
        broker=("log.cleanup.policy",),
    )
    compression_type: str = declare(
        S, "producer", "codec of stored batches; producer keeps theirs", choices=COMPRESSION_TYPES, broker=("compression.type",)
    )
    compression_gzip_level: int = declare(
        I, -1, "gzip level, -1 for the codec's own", low=1, high=9, also=(-1,), broker=("compression.gzip.level",)
    )
    compression_lz4_level: int = declare(I, 9, "lz4 level", low=1, high=17, broker=("compression.lz4.level",))
    compression_zstd_level: int = declare(I, 3, "zstd level", low=-131072, high=22, broker=("compression.zstd.level",))
    delete_retention_ms: int = declare(
        L, DAY_MS, "how long a tombstone stays after cleaning", low=0, broker=("log.cleaner.delete.retention.ms",)
    )
    file_delete_delay_ms: int = declare(
        L, 60_000, "wait between renaming a file to .deleted and removing it", low=0, broker=("log.segment.delete.delay.ms",)
    )
    flush_messages: int = declare(L, LONG_MAX, "fsync after this many records", low=1, broker=("log.flush.interval.messages",))
    flush_ms: int = declare(
        L, LONG_MAX, "fsync after this time", low=0, broker=("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    )
    index_interval_bytes: int = declare(
        I, 4096, "bytes of log between two index entries", low=0, broker=("log.index.interval.bytes",)
    )
    index_profile: str = declare(
        S, "per-batch", "whose index files to match", choices=("per-batch", "per-append"), broker=("log.index.profile",)
    )
    max_message_bytes: int = declare(I, 1_048_588, "largest batch that may be appended", low=0, broker=("message.max.bytes",))
    max_compaction_lag_ms: int = declare(
        L, LONG_MAX, "longest time a record may stay uncompacted", low=1, broker=("log.cleaner.max.compaction.lag.ms",)
    )
    min_compaction_lag_ms: int = declare(
        L, 0, "shortest time a record stays uncompacted", low=0, broker=("log.cleaner.min.compaction.lag.ms",)
    )
    min_cleanable_dirty_ratio: float = declare(
        D, 0.5, "share of uncleaned bytes that starts a cleaning", low=0, high=1, broker=("log.cleaner.min.cleanable.ratio",)
    )
    min_insync_replicas: int = declare(I, 1, "replicas that must have an acks=all record", low=1, broker=("min.insync.replicas",))
    message_timestamp_type: str = declare(
        S,
        "CreateTime",
        "whose clock stamps a record",
        choices=("CreateTime", "LogAppendTime"),
        broker=("log.message.timestamp.type",),
    )
    message_timestamp_before_max_ms: int = declare(
        L, LONG_MAX, "how far behind the clock a timestamp may be", low=0, broker=("log.message.timestamp.before.max.ms",)
    )
    message_timestamp_after_max_ms: int = declare(
        L, LONG_MAX, "how far ahead of the clock a timestamp may be", low=0, broker=("log.message.timestamp.after.max.ms",)
    )
    message_timestamp_difference_max_ms: int = declare(
        L, LONG_MAX, "deprecated: both of the two above", low=0, broker=("log.message.timestamp.difference.max.ms",)
    )
    message_format_version: str = declare(
        S, "3.0-IV1", "deprecated, no effect", broker=("log.message.format.version",), **VERSION
    )
    message_downconversion_enable: bool = declare(
        B, True, "no effect: old formats are never made", broker=("log.message.downconversion.enable",)
    )
    preallocate: bool = declare(B, False, "give a new segment its full size on disk at once", broker=("log.preallocate",))
    retention_bytes: int = declare(L, -1, "bytes to keep per partition; below 0 all", broker=("log.retention.bytes",))
    retention_ms: int = declare(
        L,
        7 * DAY_MS,
        "time to keep; -1 for ever",
        low=-1,
        broker=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes: int = declare(I, 1 << 30, "largest .log file", low=14, broker=("log.segment.bytes",))
    segment_index_bytes: int = declare(
        I, 10_485_760, "size of a new index file, rounded down to whole entries", low=4, broker=("log.index.size.max.bytes",)
    )
    segment_jitter_ms: int = declare(
        L, 0, "random time taken off segment.ms", low=0, broker=("log.roll.jitter.ms", "log.roll.jitter.hours")
    )
    segment_ms: int = declare(
        L, 7 * DAY_MS, "a segment holds at most this much time", low=1, broker=("log.roll.ms", "log.roll.hours")
    )
    unclean_leader_election_enable: bool = declare(
        B, False, "whether a replica outside the ISR may become leader", broker=("unclean.leader.election.enable",)
    )
    leader_replication_throttled_replicas: tuple[str, ...] = declare(LIST, (), "replicas slowed on the leader", **THROTTLED)
    follower_replication_throttled_replicas: tuple[str, ...] = declare(LIST, (), "replicas slowed on the follower", **THROTTLED)
    remote_storage_enable: bool = declare(B, False, "tiered storage: not supported")
    remote_log_copy_disable: bool = declare(B, False, "no effect without tiered storage")
    remote_log_delete_on_disable: bool = declare(B, False, "no effect without tiered storage")
    local_retention_ms: int = declare(L, -2, "no effect without tiered storage", low=-2, broker=("log.local.retention.ms",))
    local_retention_bytes: int = declare(L, -2, "no effect without tiered storage", low=-2, broker=("log.local.retention.bytes",))

    @classmethod
    def parse(cls, given: Mapping[str, object] | None = None, broker: TopicDefaults | None = None) -> LogConfig:
        """What is given by Kafka's names, over what the broker's properties say, over the defaults."""
        inherited = broker.topic_defaults() if broker else {}
        return cls(**{**cls.fields_of(inherited), **cls.fields_of(given or {})})

    def override(self, given: Mapping[str, object]) -> LogConfig:
        values = self.values()
        # A limit that came from the deprecated difference must follow a new difference.
        for limit in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
            if values[limit] == self.message_timestamp_difference_max_ms:
                values[limit] = LONG_MAX
        return LogConfig(**{**values, **self.fields_of(given)})

    def check(self) -> None:
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfiguration(
                f"min.compaction.lag.ms = {self.min_compaction_lag_ms} is above "
                f"max.compaction.lag.ms = {self.max_compaction_lag_ms}: lower the first or raise the second."
            )
        if self.remote_storage_enable:
            raise InvalidConfiguration("remote.storage.enable = true is not supported: there is no tiered storage here.")
        for limit in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
            if getattr(self, limit) == LONG_MAX:
                object.__setattr__(self, limit, self.message_timestamp_difference_max_ms)

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """How much time a segment may span: compaction cannot be late if the active segment never closes."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms
