"""One segment, checked in one pass over its `.log`: batches, records, both sparse indexes; and its transaction index at the end.

What goes from segment to segment (the next offset, producers, leader epochs) is in `LogState`. Where a segment is the last one
of a directory that was not closed cleanly, a crash may have left it torn: the end of the log, unused index slots and entries
that point behind the end are then notes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from milepost.errors import MilepostError
from milepost.files import Disk
from milepost.inspect import index_files
from milepost.inspect.index_files import IndexFile
from milepost.inspect.log_file import Damage, LogFile
from milepost.inspect.verify.findings import Finding, Remedy, Report, counted
from milepost.inspect.verify.verify_batch import check_batch, check_header, check_marker
from milepost.inspect.verify.verify_epochs import EpochChange
from milepost.inspect.verify.verify_indexes import OffsetIndexCheck, TimeIndexCheck
from milepost.inspect.verify.verify_producers import ProducerReplay
from milepost.record.batch import DELETE_HORIZON_FLAG, NO_TIMESTAMP, RecordBatch
from milepost.record.batches import AnyBatch
from milepost.segment import names
from milepost.segment.index_check import is_last_record_kept
from milepost.segment.offset_index import MAX_RELATIVE_OFFSET
from milepost.segment.txn_index import AbortedTransaction

Progress = Callable[[int], None]
REBUILDS = "repair rebuilds it"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets from `first` up to, not including, `next` that no batch holds; `file` is the segment where that shows."""

    file: str = field(compare=False)
    first: int
    next: int


@dataclass(slots=True)
class LogState:
    """What the walk knows after each batch."""

    next_offset: int
    replay: ProducerReplay
    # The last one that a batch has: `next_offset` also moves on where a segment begins.
    last_offset: int = -1
    last_epoch: int = -1
    changes: list[EpochChange] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    # Gaps that are known: left by damage in this walk, or accepted by an earlier repair.
    lost: set[Gap] = field(default_factory=set)
    looks_compacted: bool = False
    epochs_fall: bool = False

    def is_missing(self, offset: int) -> bool:
        """Whether the offset lies in a gap, as far as anybody can tell: the gaps of a compacted log are not collected."""
        return self.looks_compacted or any(gap.first <= offset < gap.next for gap in (*self.gaps, *self.lost))


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Where a segment stands. `may_be_torn`: the last one of a directory without a marker of a clean stop.

    `ends`: what other files say about where the log ended, such as "the high watermark is" and an offset. A torn write was never
    told to any of them.
    """

    directory: str
    base_offset: int
    next_base: int | None
    may_be_torn: bool
    ends: tuple[tuple[str, int], ...] = ()
    headers_only: bool = False
    checks_txn_index: bool = True


class SegmentCheck:
    def __init__(self, disk: Disk, where: Circumstances, state: LogState, report: Report, snapshots: Callable[[int], None]):
        """`snapshots` is called with each batch's first offset before the batch is taken in."""
        self.disk = disk
        self.where = where
        self.state = state
        self.report = report
        self._snapshots = snapshots
        self.log_path = self._path(names.LOG)
        self._valid_end = 0
        # What the transaction index should hold, if it does not.
        self.corrected_txn_index: list[AbortedTransaction] | None = None

    def _path(self, suffix: str) -> str:
        return f"{self.where.directory}/{names.file_name(self.where.base_offset, suffix)}"

    def run(self, progress: Progress = lambda done: None) -> None:
        self.report.segments += 1
        self.state.replay.start_segment()
        where = self.where
        try:
            with LogFile(self.disk, self.log_path, where.base_offset, None if where.next_base is None else where.next_base - 1) as log:
                self.report.bytes += log.size
                offset_index, time_index = self._open_index(names.INDEX, log.size), self._open_index(names.TIME_INDEX, log.size)
                offsets = OffsetIndexCheck(offset_index, self._sayer(names.INDEX))
                times = TimeIndexCheck(time_index, self._sayer(names.TIME_INDEX), not where.headers_only)
                newest = self._walk(log, offsets, times, progress)
                progress(log.size)
                self._close_indexes(offsets, times, newest, bool(time_index.data) or self.disk.exists(time_index.path))
                self._check_txn_index()
        except FileNotFoundError:
            self._gave_up("removed while the directory was read", is_note=True)
        except OSError as error:
            self._gave_up(f"cannot be read: {error.strerror or error}")
        except MilepostError as error:
            self._gave_up(str(error).removeprefix(f"{self.log_path}: "), where.may_be_torn)

    def _gave_up(self, what: str, is_note: bool = False) -> None:
        self._found(self.log_path, what, note=is_note)
        self.state.replay.lose()
        if self.where.next_base is not None:
            self._lost(self.where.next_base)

    def _found(
        self, file: str, what: str, advice: str = "", position: int | None = None, remedy: Remedy | None = None, note: bool = False
    ) -> None:
        self.report.add(Finding(file, what, advice, position, remedy, note))

    # The log.

    def _walk(self, log: LogFile, offsets: OffsetIndexCheck, times: TimeIndexCheck, progress: Progress) -> int:
        """Every batch, once; the largest timestamp of the segment."""
        state, report, headers_only = self.state, self.report, self.where.headers_only
        newest = NO_TIMESTAMP
        hole: Damage | None = None
        for position, batch in log.walk():
            if isinstance(batch, Damage):
                state.replay.lose()
                if batch.is_tail:
                    self._tail(batch, times.last_offset)
                else:
                    hole = batch
                    offsets.skip(batch.end)
                continue
            report.batches += 1
            if isinstance(batch, RecordBatch):
                first_offset, last_offset = batch.base_offset, batch.base_offset + batch.last_offset_delta
                count, wrong = (max(batch.record_count, 0), check_header(batch)) if headers_only else check_batch(batch)
                if batch.partition_leader_epoch != state.last_epoch:
                    self._epoch(position, batch)
                if batch.record_count <= batch.last_offset_delta or batch.attributes & DELETE_HORIZON_FLAG:
                    state.looks_compacted, state.replay.is_exact = True, False
            else:
                last_offset = batch.last_offset
                # A compressed set of an old format does not say where it starts; a plain message stands for itself.
                first_offset = state.next_offset if batch.is_compressed and hole is None else first_offset_of(batch, state.next_offset)
                count, wrong = (1, "") if headers_only else check_batch(batch)
            report.records += count
            if wrong:
                self._found(self.log_path, f"the batch with offsets {first_offset} to {last_offset}: {wrong}", position=position)
            if hole is not None:
                self._hole(hole, first_offset)
                times.skip(first_offset)
                hole = None
            if first_offset != state.next_offset:
                self._jump(position, first_offset)
            if last_offset - self.where.base_offset > MAX_RELATIVE_OFFSET:
                what = f"offset {last_offset} does not fit four bytes relative to the segment's base, {self.where.base_offset}"
                self._found(self.log_path, what, "the next start splits the segment", position)
            self._snapshots(first_offset)
            if batch.producer_id >= 0:
                self._producer(position, batch)
            if position >= offsets.next_position:
                offsets.reach(position)
            if first_offset <= offsets.awaited <= last_offset and (
                last_offset == offsets.awaited or is_last_record_kept(batch, offsets.awaited)
            ):
                offsets.awaited = -1
            if last_offset >= times.next_offset:
                times.reach(batch, first_offset, newest)
            if batch.max_timestamp > newest:
                newest = batch.max_timestamp
            state.next_offset, state.last_offset = last_offset + 1, last_offset
            self._valid_end = position + batch.size
            progress(position)
        return newest

    def _epoch(self, position: int, batch: RecordBatch) -> None:
        state, epoch = self.state, batch.partition_leader_epoch
        if epoch < 0:
            return
        if epoch < state.last_epoch:
            what = f"the batch at offset {batch.base_offset} carries leader epoch {epoch}, and an earlier one {state.last_epoch}"
            self._found(self.log_path, what, "compare with another replica", position)
            state.epochs_fall = True
            return
        state.changes.append(EpochChange(epoch, batch.base_offset, state.last_epoch, state.last_offset))
        state.last_epoch = epoch

    def _jump(self, position: int, first_offset: int) -> None:
        state = self.state
        gap = Gap(self.log_path, state.next_offset, first_offset)
        # Between two segments it may be a segment that is lost; inside one it is what compaction took out.
        state.looks_compacted = state.looks_compacted or (position > 0 and gap not in state.lost)
        if not state.looks_compacted or gap in state.lost:
            state.gaps.append(gap)
            state.replay.lose()
        state.replay.is_exact = False

    def _producer(self, position: int, batch: AnyBatch) -> None:
        if not isinstance(batch, RecordBatch):
            return
        is_abort = False
        if batch.is_control:
            is_abort, wrong = check_marker(batch)
            if wrong:
                self._found(self.log_path, f"the control batch at offset {batch.base_offset}: {wrong}", position=position)
                self.state.replay.is_exact = False
                return
        self.state.replay.add(batch, is_abort)

    def _hole(self, hole: Damage, following: int) -> None:
        lost = self._lost(following)
        if hole.is_offset:
            what = f"the batch from there to {hole.end} is whole, but its offset cannot be right: {hole.reason}"
            advice = "repair puts it right where its neighbours leave no other choice, else makes it a gap"
        else:
            what = f"bytes {hole.position} to {hole.end} are no valid batch ({hole.reason}), and batches follow: {lost}"
            advice = "fetch them from a replica, or accept the gap with repair --apply"
        self._found(self.log_path, what, advice, hole.position, Remedy.CUT)

    def _lost(self, following: int) -> str:
        """Remember and say which offsets the damage cost."""
        first = self.state.next_offset
        if following <= first:
            return "no offset is missing"
        self.state.lost.add(Gap(self.log_path, first, following))
        return f"offsets {first} to {following - 1} are lost"

    def _tail(self, tail: Damage, last_time_entry: int) -> None:
        where, next_offset = self.where, self.state.next_offset
        kind = "zeros, never written to" if tail.is_zero else f"no whole batch: {tail.reason}"
        what = f"{counted(tail.size, 'byte')} behind offset {next_offset - 1} {'is' if tail.size == 1 else 'are'} {kind}"
        if where.next_base is not None:
            what += f"; {self._lost(where.next_base)}"
        # What was written behind the end that was read here is known to other files, and is no sign of a loss.
        is_growing = where.may_be_torn and self.disk.stat(self.log_path).st_size > tail.end
        known = [f"{said} {offset}" for said, offset in where.ends if offset > next_offset]
        if last_time_entry >= next_offset:
            known.insert(0, f"its time index stands for offset {last_time_entry}")
        is_note = where.may_be_torn and tail.looks_torn and (not known or is_growing)
        if known and not is_note:
            what += f"; {known[0]}, so they were whole once"
        advice = "repair cuts them off"
        if is_note:
            advice = "the next start cuts them off"
        elif where.may_be_torn:
            advice = "fetch them from a replica: repair cuts them off, and so does the next start"
        self._found(self.log_path, what, advice, tail.position, Remedy.CUT, is_note)

    # The indexes.

    def _open_index(self, suffix: str, log_size: int) -> IndexFile:
        path, base = self._path(suffix), self.where.base_offset
        read = index_files.read_offset_index if suffix == names.INDEX else index_files.read_time_index
        try:
            index = read(self.disk, path, base)
        except FileNotFoundError:
            if log_size:
                self._found(path, f"missing, and its log has {counted(log_size, 'byte')}", REBUILDS, remedy=Remedy.REBUILD_INDEXES)
        except (OSError, MilepostError) as error:
            self._found(path, f"cannot be read: {_reason(error, path)}", "make it readable, or remove it and let repair rebuild it")
        else:
            if index.unused:
                note = self.where.may_be_torn
                are = "is a zero" if index.unused == 1 else "are zeros"
                what = f"{counted(index.unused, 'slot')} behind its {counted(index.entries, 'entry', 'entries')} {are}"
                advice = "not used yet: the index of an active segment" if note else REBUILDS
                self._found(path, what, advice, index.entries * index.entry.size, Remedy.REBUILD_INDEXES, note)
            return index
        entry = index_files.OFFSET_ENTRY if suffix == names.INDEX else index_files.TIME_ENTRY
        return IndexFile(path, base, entry, b"", 0, 0, 0)

    def _sayer(self, suffix: str, remedy: Remedy = Remedy.REBUILD_INDEXES) -> Callable[[str, int], None]:
        path = self._path(suffix)
        return lambda what, position: self._found(path, what, REBUILDS, position, remedy)

    def _close_indexes(self, offsets: OffsetIndexCheck, times: TimeIndexCheck, newest: int, has_times: bool) -> None:
        torn = self.where.may_be_torn
        advice = "the next start rebuilds it" if torn else REBUILDS
        behind = offsets.finish(self._valid_end)
        if behind:
            points = "entry points" if behind == 1 else f"{behind} entries point"
            what = f"its last {points} behind the end of the valid log at {self._valid_end}"
            self._found(self._path(names.INDEX), what, advice, remedy=Remedy.REBUILD_INDEXES, note=torn)
        path = self._path(names.TIME_INDEX)
        behind = times.finish()
        if behind:
            stands = "entry stands" if behind == 1 else f"{behind} entries stand"
            what = f"its last {stands} for offsets behind the end of the segment at {self.state.next_offset - 1}"
            self._found(path, what, advice, remedy=Remedy.REBUILD_INDEXES, note=torn)
        elif has_times and times.is_ordered and newest > times.last_timestamp and not torn:
            what = f"its closing entry is missing: the largest timestamp is {newest}, the last entry says {times.last_timestamp}"
            self._found(path, what, REBUILDS, remedy=Remedy.REBUILD_INDEXES)

    def _check_txn_index(self) -> None:
        path, torn = self._path(names.TXN_INDEX), self.where.may_be_torn
        if not self.where.checks_txn_index:
            return
        try:
            entries, odd = index_files.read_txn_index(self.disk, path)
        except FileNotFoundError:
            entries, odd = [], 0
        except (OSError, MilepostError) as error:
            self._found(path, f"cannot be read: {_reason(error, path)}")
            return
        before = len(self.report.findings)
        say = self._sayer(names.TXN_INDEX, Remedy.REBUILD_TXN_INDEX)
        if odd:
            what, position = f"the last {'byte is' if odd == 1 else f'{odd} bytes are'} no whole entry of 34", len(entries) * 34
            self._found(path, what, "" if torn else REBUILDS, position, Remedy.REBUILD_TXN_INDEX, torn)
        missing = self.state.replay.check_txn_index(entries, self.state.is_missing, say)
        if odd or missing or len(self.report.findings) > before:
            kept = self.state.replay.right_entries(entries, self.state.is_missing)
            self.corrected_txn_index = sorted([*kept, *missing], key=lambda aborted: aborted.last_offset)
        for aborted in missing:
            what = (
                f"the transaction of producer {aborted.producer_id} from offset {aborted.first_offset}, aborted at "
                f"{aborted.last_offset}, is missing: readers of committed data would see its records"
            )
            self._found(path, what, "the next start adds it" if torn else REBUILDS, remedy=Remedy.REBUILD_TXN_INDEX, note=torn)


def _reason(error: Exception, path: str) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error).removeprefix(f"{path}: ")


def first_offset_of(batch: AnyBatch, otherwise: int) -> int:
    """Where a batch starts, also if that takes unpacking it."""
    try:
        return batch.base_offset
    except MilepostError:
        return otherwise
