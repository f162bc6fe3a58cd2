"""What a user may say to a source: the names and rules of spark-sql-kafka, and a few of our own.

Names are read in any case. The connector's options keep their meaning; what cannot have one here is accepted when it is harmless
(poll times and retries over files) and refused when the connector refuses it. Ours:

    path                  data directories or partition directories, separated by commas: the log is read from its files
    view                  records (default) · batches · segments · files                                           (path only)
    mode                  strict (default): damage ends the query · quarantine: it is copied aside and the query goes on
    quarantinePath        where to, needed with mode=quarantine
    followSymlinks        false (default): links below the path are not followed
    endOfLog              highWatermark (default): up to the checkpoint of it, where there is one · logEnd: to the last whole batch
    maxBytesPerPartition  bytes of log per task
    maxBytesPerTrigger    bytes of log per trigger of a stream
    pushdown              false (default): see `pushdown`
    timestampsOrdered     a promise that lets a pushed-down upper bound of time end a read
    commitGroupId         a group that a stream commits its offsets to, for tools that watch lag

Any other option is refused with the nearest of these: ignored, as by the connector, `topic=t` would read every topic there is.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from milepost.errors import InvalidArgument
from milepost.spark import bound
from milepost.spark.bound import Bound
from milepost.spark.columns import RECORDS, VIEWS
from milepost.spark.option_values import OptionMap, choice, duration_ms, flag, number, size
from milepost.spark.paths import absolute, is_below, parse_paths
from milepost.spark.subscription import Subscription

logger = logging.getLogger("milepost.spark")

PATH, WIRE = "path", "wire"
BOOTSTRAP = "kafka.bootstrap.servers"
ENDING = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger", "commitGroupId")
ACCEPTED = ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "partition.metadata.cache.ttl.ms",
            "groupIdPrefix")  # fmt: skip
KNOWN = (
    "assign", "subscribe", "subscribePattern", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets", *ENDING,
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "includeHeaders", *STREAM_ONLY,
    *ACCEPTED, "path", "view", "mode", "quarantinePath", "followSymlinks", "endOfLog", "maxBytesPerPartition", "pushdown",
    "timestampsOrdered",
)  # fmt: skip
MEANT = {
    "topic": "subscribe", "topics": "subscribe", "pattern": "subscribePattern", "topicPattern": "subscribePattern",
    "bootstrap.servers": BOOTSTRAP, "servers": BOOTSTRAP, "timestamp": "startingTimestamp", "offsets": "startingOffsets",
    "group.id": "kafka.group.id", "isolation.level": "kafka.isolation.level",
}  # fmt: skip
"""What people write for names that look otherwise."""
# The connector sets these itself; a value of the user's would be lost, so it says so.
REFUSED = {
    "auto.offset.reset": "use startingOffsets",
    "key.deserializer": "keys are binary; cast them",
    "value.deserializer": "values are binary; cast them",
    "enable.auto.commit": "offsets are kept in the checkpoint; commitGroupId also commits them to a group",
    "interceptor.classes": "interceptors are not run",
}
HIGH_WATERMARK, LOG_END = "highWatermark", "logEnd"
STRICT, QUARANTINE = "strict", "quarantine"
DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    subscription: Subscription
    starting: Bound
    ending: Bound
    paths: tuple[str, ...] = ()
    bootstrap_servers: str | None = None
    starting_strategy: str = "error"
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_bytes_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_TRIGGER_DELAY_MS
    include_headers: bool = False
    read_committed: bool = False
    view: str = RECORDS
    mode: str = STRICT
    quarantine_path: str | None = None
    follow_symlinks: bool = False
    end_of_log: str = HIGH_WATERMARK
    pushdown: bool = False
    timestamps_ordered: bool = False
    commit_group: str | None = None
    poll_timeout_ms: int = DEFAULT_POLL_TIMEOUT_MS
    fetch_retries: int = 3
    fetch_retry_interval_ms: int = 10
    kafka: Mapping[str, str] = field(default_factory=dict)
    """The `kafka.` options without that prefix, for the wire transport."""

    @property
    def transport(self) -> str:
        return PATH if self.paths else WIRE

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
        options = OptionMap(given)
        refuse_unknown(options, KNOWN, MEANT)
        kafka = {name[6:]: options[name] for name in options if name.startswith("kafka.")}
        for name, advice in REFUSED.items():
            if name in kafka:
                raise InvalidArgument(f"kafka.{name} cannot be set: {advice}")
        paths = parse_paths(options["path"]) if "path" in options else ()
        for path in paths:
            absolute(path, "path")
        servers = kafka.pop("bootstrap.servers", "").strip()
        if not paths and not servers:
            raise InvalidArgument(
                "where is the log? give path, a data directory, or kafka.bootstrap.servers, such as localhost:9092"
            )
        _check_query(options, streaming=streaming)
        limits = options if streaming else OptionMap({})
        least, most = (number(limits, name) for name in ("minOffsetsPerTrigger", "maxOffsetsPerTrigger"))
        if least is not None and most is not None and least > most:
            raise InvalidArgument(f"minOffsetsPerTrigger is {least}, above maxOffsetsPerTrigger, {most}")
        view = choice(options, "view", VIEWS)
        if view != RECORDS and (streaming or not paths):
            raise InvalidArgument(f"view={view} is read in a batch query over path; a stream or a broker gives records only")
        mode, quarantine_path = _mode(options, paths)
        fetch_retries = number(options, "fetchOffset.numRetries", 0)
        retry_interval = number(options, "fetchOffset.retryIntervalMs", 0)
        return cls(
            subscription=Subscription.parse(options, may_be_all=bool(paths)),
            starting=bound.starting(options, streaming=streaming),
            ending=Bound(bound.LATEST) if streaming else bound.ending(options),
            paths=paths,
            bootstrap_servers=servers or None,
            starting_strategy=choice(options, "startingOffsetsByTimestampStrategy", ("error", "latest")),
            fail_on_data_loss=flag(options, "failOnDataLoss", True),
            min_partitions=number(options, "minPartitions"),
            max_records_per_partition=number(options, "maxRecordsPerPartition"),
            max_bytes_per_partition=size(options, "maxBytesPerPartition"),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_bytes_per_trigger=size(limits, "maxBytesPerTrigger"),
            max_trigger_delay_ms=duration_ms(limits.get("maxTriggerDelay", "15m"), "maxTriggerDelay"),
            include_headers=flag(options, "includeHeaders", False),
            read_committed=_is_committed(kafka.get("isolation.level")),
            view=view,
            mode=mode,
            quarantine_path=quarantine_path,
            follow_symlinks=flag(options, "followSymlinks", False),
            end_of_log=choice(options, "endOfLog", (HIGH_WATERMARK, LOG_END)),
            pushdown=flag(options, "pushdown", False),
            timestamps_ordered=flag(options, "timestampsOrdered", False),
            commit_group=limits.get("commitGroupId"),
            poll_timeout_ms=number(options, "kafkaConsumer.pollTimeoutMs", 0) or DEFAULT_POLL_TIMEOUT_MS,
            fetch_retries=3 if fetch_retries is None else fetch_retries,
            fetch_retry_interval_ms=10 if retry_interval is None else retry_interval,
            kafka=kafka,
        )


def _check_query(options: OptionMap, *, streaming: bool) -> None:
    """Options that only a stream has, or only a batch query."""
    for name in ENDING if streaming else ():
        if name in options:
            raise InvalidArgument(f"{name} cannot be set for a stream, which has no end")
    for name in () if streaming else STREAM_ONLY:
        if name in options:
            logger.warning("%s has no effect in a batch query", name)


def _mode(options: OptionMap, paths: Sequence[str]) -> tuple[str, str | None]:
    """What happens with damaged bytes, and where they are kept."""
    quarantine_path = absolute(options["quarantinePath"], "quarantinePath") if options.get("quarantinePath") else None
    mode = choice(options, "mode", (STRICT, QUARANTINE))
    if mode == QUARANTINE and not quarantine_path:
        raise InvalidArgument("mode=quarantine copies damaged bytes aside: quarantinePath says where to, outside of the log")
    for path in paths:
        if quarantine_path is not None and is_below(quarantine_path, path):
            raise InvalidArgument(
                f"quarantinePath is {quarantine_path}, below the log in {path}, where nothing is written; name another place"
            )
    return mode, quarantine_path


def _is_committed(level: str | None) -> bool:
    if level not in (None, "read_committed", "read_uncommitted"):
        raise InvalidArgument(f"kafka.isolation.level is {level!r}; read_uncommitted or read_committed is possible")
    return level == "read_committed"


def refuse_unknown(options: OptionMap, names: Iterable[str], meant: Mapping[str, str]) -> None:
    """An unknown option is an error that names the one that is meant, or nearly written."""
    known = {name.lower(): name for name in names}
    others = {name.lower(): name for name in meant.values()}
    for name in options:
        if name in known or name.startswith("kafka."):
            continue
        near = OptionMap(meant).get(name)
        if near is None:
            found = difflib.get_close_matches(name, {**known, **others}, 1, 0.75)
            near = {**known, **others}[found[0]] if found else None
        what = f"is {near} meant?" if near is not None else f"there are {', '.join(sorted(known.values()))}"
        raise InvalidArgument(f"option {name} is unknown; {what}")
