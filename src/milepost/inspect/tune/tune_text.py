"""A tuning in words and a table, for a terminal of 100 columns."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from milepost.inspect.amounts import bytes_text, duration_text
from milepost.inspect.explain.explain_text import INDENT, Section, count, wrapped
from milepost.inspect.tune.recommend import Choice
from milepost.inspect.tune.tune import Tuning
from milepost.inspect.tune.workload import Workload

NAME_WIDTH = 24


def tuning_as_text(tuning: Tuning) -> list[Section]:
    what = "this log" if tuning.directory else "a full segment"
    name = posixpath.basename(tuning.directory) if tuning.directory else "a log that is not there yet"
    return [
        Section(f"Tuning {name}", tuple(_workload(tuning))),
        Section(f"What each index.interval.bytes would mean for {what}", tuple(_table(tuning))),
        Section("Take these settings", tuple(_settings(tuning))),
        Section("Good to know", tuple(line for note in tuning.notes for line in wrapped(note))),
    ]


def _workload(tuning: Tuning) -> Iterator[str]:
    workload = tuning.workload
    if workload.assumption:
        yield from wrapped(workload.assumption)
        yield from wrapped(f"A segment of {tuning.config.segment_bytes:,} bytes then holds {count(workload.records, 'record')}.")
    else:
        batches, records = count(workload.batches, "batch", "batches"), count(workload.records, "offset")
        yield from wrapped(
            f"{count(workload.size, 'byte')}: {batches} of {_sizes(workload)}; {records}, {workload.record_bytes:,.0f} bytes each."
        )
    if workload.rate is None:
        yield from wrapped("How fast they arrive is not known: the log has no two different timestamps.")
    else:
        yield from wrapped(f"{bytes_text(workload.rate)} a second arrive.")


def _sizes(workload: Workload) -> str:
    if workload.smallest_batch == workload.largest_batch:
        return f"{workload.largest_batch:,} bytes"
    return f"{workload.smallest_batch:,} to {workload.largest_batch:,} bytes, {workload.batch_bytes:,.0f} on average"


def _table(tuning: Tuning) -> Iterator[str]:
    yield f"{INDENT}{'':>8} {'':>10} {'':>11} {'':>11}  {'walked by offset':>19}  {'walked by time':>19}"
    walks = f"{_pair('mean', 'worst')}  {_pair('mean', 'worst')}"
    yield f"{INDENT}{'interval':>8} {'entries':>10} {'.index':>11} {'.timeindex':>11}  {walks}  ends by"
    for choice in tuning.choices:
        yield _row(choice)
    yield ""
    shown = set()
    for choice in tuning.choices:
        roll = choice.roll
        if roll not in shown:
            shown.add(roll)
            after = "" if roll.after_ms is None else f" ({duration_text(roll.after_ms)})"
            interval = f" at an interval of {choice.interval:,}" if "index" in roll.cause else ""
            cause = {"size": "segment.bytes", "time": "segment.ms"}.get(roll.cause, f"A full {roll.cause}")
            yield from wrapped(f"{cause} ends a segment{interval} after about {roll.size:,} bytes{after}.")


def _row(choice: Choice) -> str:
    by_offset = _pair(f"{choice.by_offset_mean:,.0f}", f"{choice.by_offset_worst:,}")
    by_time = _pair(f"{choice.by_time_mean:,.0f}", f"{choice.by_time_worst:,}")
    sizes = f"{choice.interval:>8,} {choice.entries:>10,} {choice.index_bytes:>11,} {choice.time_index_bytes:>11,}"
    return f"{INDENT}{sizes}  {by_offset}  {by_time}  {choice.roll.cause}"


def _pair(mean: str, worst: str) -> str:
    return f"{mean:>9} {worst:>9}"


def _settings(tuning: Tuning) -> Iterator[str]:
    for setting in tuning.settings:
        yield f"{INDENT}{setting.name:<{NAME_WIDTH}}{setting.value}"
        yield from wrapped(setting.reason, INDENT * 3)
