"""Why a lookup ends where it ends: the steps it took, its answer, and why the answer's neighbours are not the answer.

There is no search here. The steps are those that `log.explain` noted while it looked (`segment/trace.py`); what is added is
what stands next to them: neighbouring records and index entries (`neighbours`), damaged bytes on the way, the answer as a
sentence. `explain_text` turns an explanation into lines for a person, `explain_json` into the document of `milepost explain
--json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from milepost.errors import CorruptRecord, InvalidArgument
from milepost.inspect.explain.neighbours import WhyNot, neighbours
from milepost.inspect.times import format_time
from milepost.log.log import Log
from milepost.log.reading import MAX_TIMESTAMP, Found
from milepost.segment.file_records import Hole
from milepost.segment.trace import LogScan, SegmentChoice, Step, Trace


@dataclass(frozen=True, slots=True)
class Question:
    """One of `offset` and `time`, as asked. `unit` says how a time was written; `target` is what was looked for in the end."""

    offset: int | None
    time: int | None
    unit: str | None
    target: int

    @property
    def is_by_time(self) -> bool:
        return self.time is not None


@dataclass(frozen=True, slots=True)
class Explanation:
    """`rebuilt` names the segments whose indexes are not those on disk, but were made in memory with `index_interval_bytes`.

    `bytes_left_out`: at the end, what is no whole batch.
    """

    directory: str
    question: Question
    start_offset: int
    end_offset: int
    base_offsets: tuple[int, ...]
    size: int
    steps: tuple[Step, ...]
    answer: Found | None
    conclusion: str
    why_not: tuple[WhyNot, ...]
    damage: tuple[Hole, ...]
    rebuilt: tuple[int, ...] = ()
    index_interval_bytes: int = 0
    bytes_left_out: int = 0


def explain(log: Log, *, offset: int | None = None, time: int | None = None, unit: str | None = None) -> Explanation:
    """Look up an offset or a time (epoch milliseconds; `unit` says how it was written) and say how it went."""
    if (offset is None) == (time is None):
        raise InvalidArgument("explain takes an offset or a time, one of the two")
    target = time if time is not None else max(offset or 0, log.start_offset)
    question = Question(offset, time, unit, target)
    trace = Trace()
    try:
        answer, _ = log.explain(offset=offset, time=time, trace=trace)
    except CorruptRecord:
        answer, damage = None, _hole_at(log, target)
        if question.is_by_time or not damage:
            raise
    else:
        damage = _holes_passed(log, trace.steps, answer)
    return Explanation(
        log.directory,
        question,
        log.start_offset,
        log.end_offset,
        tuple(log.segments.base_offsets()),
        log.segments.size_in_bytes,
        tuple(trace.steps),
        answer,
        _conclusion(log, question, answer, damage),
        tuple(neighbours(log, target, question.is_by_time, answer, trace.steps)),
        tuple(damage),
        tuple(log.recovered),
        log.config.index_interval_bytes,
        log.bytes_cut,
    )


# The answer in one sentence.


def _conclusion(log: Log, question: Question, answer: Found | None, damage: list[Hole]) -> str:
    if answer is not None:
        return _found(question, answer) + _remarks(log, answer)
    if log.start_offset == log.end_offset:
        return f"Nothing to find: the log is empty, its next offset is {log.end_offset}."
    if question.is_by_time:
        return f"Nothing is that new: {_newest(log)}."
    target = question.target
    if damage:
        hole = damage[0]
        return (
            f"Offset {target} lies in damaged bytes {hole.position} to {hole.end}: {lost(hole)} lost there. "
            f"A fetch answers CORRUPT_MESSAGE; readers may go on at {hole.next_offset}."
        )
    if target >= log.end_offset:
        return f"Nothing is at or after {target}: the log ends at {log.end_offset}, the next offset to be written."
    return f"No record at or after {target} is left, although the log ends at {log.end_offset}: cleaning removed them."


def _newest(log: Log) -> str:
    newest = log.offset_for(MAX_TIMESTAMP)
    if newest is None:
        return "no record of this log carries a timestamp"
    return f"the largest timestamp of the log is {newest.timestamp} ({format_time(newest.timestamp)}), at offset {newest.offset}"


def _found(question: Question, answer: Found) -> str:
    where = f"offset {answer.offset} in segment {answer.segment}, in the batch at byte {answer.position}"
    if not question.is_by_time and answer.offset > question.target:
        return f"Offset {question.target} is not there any more; the first record after it is {where}."
    start = "The first record that is not older is" if question.is_by_time else "It is"
    return f"{start} {where}; its timestamp is {answer.timestamp} ({format_time(answer.timestamp)})."


def _remarks(log: Log, answer: Found) -> str:
    segment = log.segments.floor(answer.segment)
    assert segment is not None, "the answer lies in a segment"
    _, batch = next(segment.log.batches(answer.position))
    remarks = " It is a control record (a transaction marker): consumers never get it." if batch.is_control else ""
    # After a clean stop nobody reads the log at the start, so this may be the first look at these bytes.
    return remarks if batch.is_valid() else f"{remarks} But the checksum of that batch is wrong: run milepost verify."


# Damage.


def lost(hole: Hole) -> str:
    """The offsets of a hole with their verb."""
    first, last = hole.first_offset, hole.next_offset - 1
    return f"offset {first} is" if first == last else f"offsets {first} to {last} are"


def _hole_at(log: Log, offset: int) -> list[Hole]:
    return [hole for segment in log.segments for hole in segment.log.holes if hole.first_offset <= offset < hole.next_offset]


def _holes_passed(log: Log, steps: Sequence[Step], answer: Found | None) -> list[Hole]:
    """Damaged stretches that the walk stepped over: a record lost there might have been the answer."""
    passed: list[Hole] = []
    segment = None
    for step in steps:
        if isinstance(step, SegmentChoice):
            segment = log.segments.floor(step.base_offset)
        elif isinstance(step, LogScan) and segment is not None:
            end = step.start_position + step.bytes_skipped
            if answer is not None and answer.segment == segment.base_offset:
                end = answer.position
            passed += [hole for hole in segment.log.holes if step.start_position <= hole.position < end]
    return passed
