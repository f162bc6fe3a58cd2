"""An explanation in words: sections with a heading and lines, for a terminal of 100 columns.

The lines are plain text; whoever prints them may set the headings off. The order is that of the lookup: question, segment,
index (two of them for a time), walk, answer, and last why the neighbours are not the answer.
"""

from __future__ import annotations

import posixpath
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from milepost.inspect.explain.explain import Explanation, lost
from milepost.inspect.explain.explain_json import answered_warm, first_warm_slot
from milepost.inspect.explain.neighbours import WhyNot, base_of, is_time_index
from milepost.inspect.times import format_time
from milepost.segment.trace import IndexSearch, LogScan, SegmentChoice, Step

WIDTH = 100
INDENT = "   "
SHOWN_PROBES = 24
# A slot and its key stay on one line: no break at this space, which is printed as an ordinary one.
KEPT_SPACE = "\u00a0"


@dataclass(frozen=True, slots=True)
class Section:
    heading: str
    lines: tuple[str, ...]


def explanation_as_text(explanation: Explanation) -> list[Section]:
    sections = [Section(_question(explanation), tuple(_log_lines(explanation)))]
    for number, step in enumerate(explanation.steps, 1):
        heading, lines = _step(explanation, step)
        sections.append(Section(f"{number}  {heading}", tuple(lines)))
    sections.append(Section(f"{len(explanation.steps) + 1}  Answer", tuple(_answer_lines(explanation))))
    if explanation.why_not:
        sections.append(Section("Why not its neighbours", tuple(_why_not_lines(explanation.why_not))))
    return sections


def sections_as_lines(sections: list[Section]) -> list[str]:
    """All of it as plain lines, a blank one between two sections."""
    lines: list[str] = []
    for section in sections:
        lines += [*([""] if lines else []), section.heading, *section.lines]
    return lines


def wrapped(text: str, indent: str = INDENT) -> list[str]:
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [line.replace(KEPT_SPACE, " ") for line in lines]


def count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# The question, and what it is asked of.


def _question(explanation: Explanation) -> str:
    question, name = explanation.question, posixpath.basename(explanation.directory)
    if question.time is not None:
        return f"Where in {name} is the first record from {format_time(question.time)} on?"
    return f"Where in {name} is offset {question.offset}?"


def _log_lines(explanation: Explanation) -> Iterator[str]:
    question, start, end = explanation.question, explanation.start_offset, explanation.end_offset
    if question.time is not None and question.unit is not None:
        yield from wrapped(f"The time was understood as {question.unit}; Kafka keeps it as {question.time}.")
    held = f"offsets {start} to {end - 1}" if end > start else f"no records (the next offset is {end})"
    segments, size = count(len(explanation.base_offsets), "segment"), count(explanation.size, "byte")
    yield from wrapped(f"The log holds {held} in {segments}, {size}.")
    if left_out := explanation.bytes_left_out:
        are = "is no whole batch and is" if left_out == 1 else "are no whole batch and are"
        yield from wrapped(f"{count(left_out, 'byte')} at the end of the log {are} left out; milepost verify says more.")
    if explanation.rebuilt:
        yield from wrapped(
            f"It was not closed cleanly, or is being written: the indexes of {count(len(explanation.rebuilt), 'segment')} were rebuilt "
            f"in memory for this, with index.interval.bytes = {explanation.index_interval_bytes} (-X changes it)."
        )
    if question.offset is not None and question.offset < start:
        yield from wrapped(
            f"Offset {question.offset} lies below the log start {start}, so the lookup starts at {start}. "
            f"A consumer that fetches {question.offset} is refused (OFFSET_OUT_OF_RANGE)."
        )


# The steps.


def _step(explanation: Explanation, step: Step) -> tuple[str, list[str]]:
    if isinstance(step, SegmentChoice):
        return f"Segment {step.base_offset}", _segment_lines(explanation, step)
    if isinstance(step, IndexSearch):
        return f"{_index_name(step)} {posixpath.basename(step.file)}", _index_lines(explanation, step)
    return f"Walk through {posixpath.basename(step.file)}", _scan_lines(explanation, step)


def _segment_lines(explanation: Explanation, step: SegmentChoice) -> list[str]:
    bases = explanation.base_offsets
    place = f"Number {bases.index(step.base_offset) + 1} of {len(bases)}"
    if step.rule == "first not older":
        newest = f"{step.largest_timestamp} ({format_time(step.largest_timestamp or 0)})"
        passed = f", after {count(step.compared - 1, 'segment')} with nothing that new" if step.compared > 1 else ""
        return wrapped(f"{place}: the first whose largest timestamp, {newest}, is not below {step.target}{passed}.")
    following = step.next_base_offset
    next_one = "there is none behind it" if following is None else f"the next one starts at {following}"
    if step.rule == "next":
        return wrapped(f"{place}: the segment before it holds nothing at or after {step.target}; {next_one}.")
    return wrapped(f"{place}: the last whose base offset is not above {step.target}; {next_one}.")


def _index_name(search: IndexSearch) -> str:
    return "Time index" if is_time_index(search) else "Offset index"


def _index_lines(explanation: Explanation, search: IndexSearch) -> list[str]:
    base = base_of(explanation.steps, search)
    if is_time_index(search):
        asked = f"time {search.target}"
    else:
        asked = f"offset {base + search.target}, relative {base + search.target} - {base} = {search.target}"
    if not search.entries:
        return wrapped(f"Looked for {asked}. The index has no entries: the walk starts at the beginning of the segment.")
    shown = [f"{probe.slot}{KEPT_SPACE}({probe.key})" for probe in search.probes[:SHOWN_PROBES]]
    probed = f"Probed {'slot' if len(shown) == 1 else 'slots'} {', '.join(shown)}"
    lines = wrapped(f"Looked for {asked}, among {count(search.entries, 'entry', 'entries')}. {probed}.")
    lines += wrapped(f"{count(len(search.probes), 'probe')} in {count(search.pages, 'page')}: {_warmth(search)}.")
    return [*lines, "", *_entry_table(search, base)]


def _warmth(search: IndexSearch) -> str:
    first = first_warm_slot(search)
    if search.warm and first > 0:
        return f"the warm section (the last 8,192 bytes, from slot {first} on) answered"
    if answered_warm(search):
        return "the warm section (the last 8,192 bytes) is the whole index, and answered"
    return f"the warm section starts past it, at slot {first}, so the search went into the cold part"


def _entry_table(search: IndexSearch, base: int) -> Iterator[str]:
    """The slot that was found between its neighbours."""
    by_time = is_time_index(search)
    target = str(search.target if by_time else base + search.target)
    yield _row("slot", *(("timestamp", "offset") if by_time else ("offset", "position")), "")
    if search.slot is None:
        yield _row("→ none", "", "", "all entries are past it: from the segment's start")
    else:
        if search.previous_entry is not None:
            yield _row(str(search.slot - 1), *_entry(search, search.previous_entry, base), "")
        yield _row(f"→ {search.slot}", *_entry(search, search.entry, base), f"the last one not past {target}")
    if search.next_entry is not None:
        yield _row(str(0 if search.slot is None else search.slot + 1), *_entry(search, search.next_entry, base), f"past {target}")


def _entry(search: IndexSearch, entry: tuple[int, int], base: int) -> tuple[str, str]:
    return (str(entry[0]), str(base + entry[1])) if is_time_index(search) else (str(base + entry[0]), str(entry[1]))


def _row(slot: str, first: str, second: str, remark: str) -> str:
    return f"{INDENT}{slot:>10}  {first:>14}  {second:>12}   {remark}".rstrip()


def _scan_lines(explanation: Explanation, scan: LogScan) -> list[str]:
    skipped = f"{count(scan.batches_skipped, 'batch', 'batches')} skipped ({count(scan.bytes_skipped, 'byte')})"
    if scan.position is None and not scan.bytes_skipped:
        return wrapped(f"From byte {scan.start_position}: the segment ends there.")
    if scan.position is None:
        return wrapped(f"From byte {scan.start_position} to the end of the segment: {skipped}; none of them reaches far enough.")
    rejected = f"{count(scan.records_rejected, 'record')} rejected"
    lines = wrapped(f"From byte {scan.start_position}: {skipped}, then {rejected} inside the batch at byte {scan.position}.")
    answer = explanation.answer
    if answer is not None and answer.position != scan.position and scan is explanation.steps[-1]:
        lines += wrapped(f"Cleaning took what was wanted from it; the next record is in the batch at byte {answer.position}.")
    return lines


# The answer and its neighbours.


def _answer_lines(explanation: Explanation) -> Iterator[str]:
    yield from wrapped(explanation.conclusion)
    answered = explanation.answer is not None or explanation.question.is_by_time
    for hole in explanation.damage if answered else ():
        yield from wrapped(
            f"On the way are damaged bytes {hole.position} to {hole.end}: {lost(hole)} lost there, and might have been the answer."
        )


def _why_not_lines(candidates: tuple[WhyNot, ...]) -> Iterator[str]:
    width = max(len(_name(candidate)) for candidate in candidates) + 3
    for candidate in candidates:
        start = f"{INDENT}{_name(candidate):<{width}}"
        yield from textwrap.wrap(candidate.reason, WIDTH, initial_indent=start, subsequent_indent=" " * len(start))


def _name(candidate: WhyNot) -> str:
    if candidate.slot is None:
        return f"{candidate.candidate}, offset {candidate.offset}"
    if candidate.timestamp is not None:
        return f"time slot {candidate.slot} ({candidate.timestamp} → {candidate.offset})"
    return f"offset slot {candidate.slot} ({candidate.offset} → {candidate.position})"
