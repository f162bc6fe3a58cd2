"""Which index interval and segment size suit a log: the price of each choice, and the settings to take.

    index.interval.bytes   small: short walks, long indexes; large: the other way round. Below a batch's size it changes nothing.
    segment.index.bytes    room for the entries of a whole segment, or an index ends it (`forecast`)
    segment.bytes          a signed 32-bit number: a segment ends below 2 GiB, whatever one would like. The rule of thumb that
                           segments above 5 GiB need a larger index (1,310,720 entries, 4096 bytes of log each, fill 10 MiB)
                           speaks of files that cannot exist; a small interval in a segment of 2 GiB can fill it, though.
    segment.ms, jitter     the end of a segment that never fills; jitter spreads the rolls of partitions that began together

`milepost tune --json` prints `tuning_as_json`: directory (null without a log), workload, current (the settings the rolls are
forecast with), choices, settings (name, value, reason), notes. Bytes and entries of a choice are those of the whole log, or of
one full segment where there is no log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from milepost.config import LogConfig
from milepost.errors import InvalidArgument
from milepost.inspect.tune.density import OFFSET_ENTRY, TIME_ENTRY, Density, densities
from milepost.inspect.tune.forecast import Roll, filling_interval, forecast, index_room, most_entries
from milepost.inspect.tune.recommend import Choice, Setting, recommend
from milepost.inspect.tune.workload import Measured, Workload, assumed_workload, sample_of
from milepost.log.log import Log

INTERVALS = (512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536)
MAX_SEGMENT_BYTES = 2**31 - 1
CURRENT = ("index_interval_bytes", "segment_bytes", "segment_index_bytes", "segment_ms", "segment_jitter_ms", "retention_ms")


@dataclass(frozen=True, slots=True)
class Need:
    """What lookups have to be like: mostly by time, and walking no further than `max_scan` bytes if that is given."""

    by_time: bool = False
    max_scan: int | None = None


@dataclass(frozen=True, slots=True)
class Tuning:
    """The whole answer. `directory` is None when there was no log to measure."""

    directory: str | None
    workload: Workload
    config: LogConfig
    choices: tuple[Choice, ...]
    settings: tuple[Setting, ...]
    notes: tuple[str, ...]


def tune_log(
    log: Log,
    need: Need | None = None,
    *,
    records_per_second: float | None = None,
    note: str = "",
    progress: Callable[[int], None] | None = None,
) -> Tuning:
    """From the batches of a log. The rolls are forecast with the log's configuration; `progress` is told the bytes gone through."""
    measured = Measured(log, progress)
    found = densities(measured.segments(), INTERVALS)
    return _tuning(log.directory, measured.workload(records_per_second), log.config, found, need or Need(), note)


def tune_figures(
    record_bytes: int, records_per_second: float, config: LogConfig, need: Need | None = None, *, note: str = ""
) -> Tuning:
    """From figures alone: the bytes of a record and how many arrive per second."""
    workload = assumed_workload(record_bytes, records_per_second, config.segment_bytes)
    found = densities([sample_of(workload, INTERVALS)], INTERVALS)
    for density in found:
        # Equal batches: every so many of them has an entry, and the walks of a sample are those of the whole segment.
        step = density.interval // workload.largest_batch + 1
        density.entries = (workload.batches - 1) // step
        density.time_entries = density.entries + ((workload.batches - 1) % step > 0)
    return _tuning(None, workload, config, found, need or Need(), note)


def possible_segment_bytes(wanted: int) -> tuple[int, str]:
    """The segment size nearest to `wanted` that can exist, and a sentence when that is another one."""
    if wanted < 1:
        raise InvalidArgument(f"--segment-bytes {wanted}: a segment has at least one byte")
    if wanted <= MAX_SEGMENT_BYTES:
        return wanted, ""
    entries, time_entries = index_room(LogConfig().segment_index_bytes)
    return MAX_SEGMENT_BYTES, (
        f"Segments of {wanted:,} bytes cannot exist: segment.bytes is a signed 32-bit number, so {MAX_SEGMENT_BYTES:,} is "
        f"the most, and what is used here. If they could, with an entry every 4,096 bytes an .index of 10 MiB would be full after "
        f"{entries * 4096 / 2**30:.2f} GiB and a .timeindex after {time_entries * 4096 / 2**30:.2f} GiB."
    )


def _tuning(
    directory: str | None, workload: Workload, config: LogConfig, found: list[Density], need: Need, note: str
) -> Tuning:
    choices = tuple(_choice(density, forecast(density, workload, config)) for density in found)
    settings = recommend(choices, workload, config, need.by_time, need.max_scan)
    return Tuning(directory, workload, config, choices, settings, (*([note] if note else []), *_notes(config)))


def _choice(density: Density, roll: Roll) -> Choice:
    return Choice(
        density.interval,
        density.entries,
        density.index_bytes,
        density.time_index_bytes,
        density.by_offset.mean,
        density.by_offset.worst,
        density.by_time.mean,
        density.by_time.worst,
        roll,
    )


def _notes(config: LogConfig) -> tuple[str, ...]:
    size, index_bytes, interval = config.segment_bytes, config.segment_index_bytes, config.index_interval_bytes
    entries, time_entries = index_room(index_bytes)
    at, time_at = filling_interval(size, index_bytes)
    most = most_entries(size, interval)
    filling = f"index.interval.bytes has to be below {time_at:,} (.timeindex) or {at:,} (.index)" if time_at else "it is too short"
    return (
        f"A segment of {size:,} bytes has at most {most:,} entries at one per {interval:,} bytes: {most * OFFSET_ENTRY:,} bytes "
        f"of .index and {most * TIME_ENTRY:,} of .timeindex.",
        f"segment.index.bytes = {index_bytes:,} ends a segment at {entries:,} .index entries or {time_entries:,} .timeindex "
        f"entries. For that to happen within {size:,} bytes of log, {filling}.",
    )


def tuning_as_json(tuning: Tuning) -> dict[str, object]:
    workload = tuning.workload
    return {
        "directory": tuning.directory,
        "workload": {
            **asdict(workload),
            "batch_bytes": round(workload.batch_bytes, 1),
            "record_bytes": round(workload.record_bytes, 1),
            "rate": None if workload.rate is None else round(workload.rate, 3),
        },
        "current": {name.replace("_", "."): getattr(tuning.config, name) for name in CURRENT},
        "choices": [
            {**asdict(choice), "by_offset_mean": round(choice.by_offset_mean, 1), "by_time_mean": round(choice.by_time_mean, 1)}
            for choice in tuning.choices
        ],
        "settings": [asdict(setting) for setting in tuning.settings],
        "notes": list(tuning.notes),
    }
