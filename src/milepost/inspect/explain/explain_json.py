"""An explanation as one JSON document: what `milepost explain --json` prints. Names and meanings stay; more may be added.

    directory    the partition directory, as given
    log          start_offset, end_offset, segments (how many), bytes, bytes_left_out (at the end: no whole batch)
    question     offset or time (the other is null), unit (how the time was written, or null), target (what was looked for)
    steps        in the order they were taken, each with its kind in `step`:
      segment    rule ("floor", "first not older", "next"), base_offset, next_base_offset, largest_timestamp, compared
      index      index ("offset", "time"), file, entries, target (relative to the base in an offset index), probes [slot, key],
                 pages, warm (the warm section answered), slot (null: all entries are past the target),
                 entry, previous_entry, next_entry
      scan       file, start_position, position (null: no batch), bytes_skipped, batches_skipped, records_rejected
    answer       offset, timestamp, segment, position (of its batch), leader_epoch; null when there is none
    conclusion   the answer, or why there is none, in a sentence
    why_not      each neighbour: candidate, reason, and of offset, timestamp, segment, position, slot those that it has
    damage       stretches of damaged bytes on the way: position, end, first_offset, next_offset
    rebuilt      base offsets of the segments whose indexes were rebuilt in memory to answer, because the last stop was not clean

Entries are objects with absolute offsets: {"offset", "position"} of an offset index, {"timestamp", "offset"} of a time index.
"""

from __future__ import annotations

import posixpath
from dataclasses import asdict

from milepost.inspect.explain.explain import Explanation
from milepost.inspect.explain.neighbours import base_of, is_time_index
from milepost.segment.sparse_index import WARM_BYTES
from milepost.segment.trace import IndexSearch, LogScan, SegmentChoice, Step

Json = dict[str, object]


def explanation_as_json(explanation: Explanation) -> Json:
    question, answer = explanation.question, explanation.answer
    return {
        "directory": explanation.directory,
        "log": {
            "start_offset": explanation.start_offset,
            "end_offset": explanation.end_offset,
            "segments": len(explanation.base_offsets),
            "bytes": explanation.size,
            "bytes_left_out": explanation.bytes_left_out,
        },
        "question": {"offset": question.offset, "time": question.time, "unit": question.unit, "target": question.target},
        "steps": [_step(explanation, step) for step in explanation.steps],
        "answer": None
        if answer is None
        else {
            "offset": answer.offset,
            "timestamp": answer.timestamp,
            "segment": answer.segment,
            "position": answer.position,
            "leader_epoch": answer.leader_epoch,
        },
        "conclusion": explanation.conclusion,
        "why_not": [_without_nulls(asdict(candidate)) for candidate in explanation.why_not],
        "damage": [asdict(hole) for hole in explanation.damage],
        "rebuilt": list(explanation.rebuilt),
    }


def _step(explanation: Explanation, step: Step) -> Json:
    if isinstance(step, SegmentChoice):
        return {
            "step": "segment",
            "rule": step.rule,
            "base_offset": step.base_offset,
            "next_base_offset": step.next_base_offset,
            "largest_timestamp": step.largest_timestamp,
            "compared": step.compared,
        }
    if isinstance(step, IndexSearch):
        base = base_of(explanation.steps, step)
        return {
            "step": "index",
            "index": "time" if is_time_index(step) else "offset",
            "file": posixpath.basename(step.file),
            "entries": step.entries,
            "target": step.target,
            "probes": [[probe.slot, probe.key] for probe in step.probes],
            "pages": step.pages,
            "warm": answered_warm(step),
            "slot": step.slot,
            "entry": None if step.slot is None else _entry(step, step.entry, base),
            "previous_entry": _entry(step, step.previous_entry, base),
            "next_entry": _entry(step, step.next_entry, base),
        }
    assert isinstance(step, LogScan)
    return {
        "step": "scan",
        "file": posixpath.basename(step.file),
        "start_position": step.start_position,
        "position": step.position,
        "bytes_skipped": step.bytes_skipped,
        "batches_skipped": step.batches_skipped,
        "records_rejected": step.records_rejected,
    }


def _entry(search: IndexSearch, entry: tuple[int, int] | None, base: int) -> Json | None:
    if entry is None:
        return None
    if is_time_index(search):
        return {"timestamp": entry[0], "offset": base + entry[1]}
    return {"offset": base + entry[0], "position": entry[1]}


def _without_nulls(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def first_warm_slot(search: IndexSearch) -> int:
    return max(0, search.entries - 1 - WARM_BYTES // search.entry_size)


def answered_warm(search: IndexSearch) -> bool:
    """Whether every probe fell into the last 8192 bytes: always so in an index that is no longer than that."""
    return search.warm or (search.entries > 0 and first_warm_slot(search) == 0)
