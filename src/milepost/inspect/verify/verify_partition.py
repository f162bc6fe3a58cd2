"""One partition directory, checked file by file: nothing is opened for writing, nothing is recovered in memory first.

    1  every file       what it is; left-overs and foreign files are noted, links and devices refused
    2  every segment    see verify_segment, from the first to the last
    3  gaps             offsets that no batch holds: compaction leaves them; in any other log a segment is lost
    4  the whole log    snapshots, leader epochs, topic id, and this partition's lines in the checkpoints of the data directory
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from milepost.errors import KafkaStorage, MilepostError
from milepost.files import Disk
from milepost.inspect.paths import SEGMENT_KINDS, FileKind, FileName, files_in, is_log_name, is_regular
from milepost.inspect.verify.findings import Finding, Remedy, Report, counted
from milepost.inspect.verify.verify_epochs import check_epochs
from milepost.inspect.verify.verify_producers import ProducerReplay, snapshot_path
from milepost.inspect.verify.verify_segment import Circumstances, Gap, LogState, Progress, SegmentCheck
from milepost.log import epochs
from milepost.log.directory import data_directory, partition_metadata
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.directory.partition_metadata import read_partition_metadata
from milepost.log.epochs import EpochEntry, LeaderEpochCache
from milepost.log.open import last_segment_size
from milepost.log.producer_state.snapshot import is_snapshot_name, snapshot_offset
from milepost.segment import names
from milepost.segment.txn_index import AbortedTransaction

USABLE = {*SEGMENT_KINDS, FileKind.SNAPSHOT, FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA}
LEFT_OVERS = {
    names.DELETED: "waits for its removal",
    names.CLEANED: "of an unfinished cleaning; the next start drops it",
    names.SWAP: "of an unfinished swap; the next start finishes it",
}
FOREIGN = {
    FileKind.KEPT: "kept by an earlier recovery or repair",
    FileKind.TEMPORARY: "of an unfinished replacement; not looked at",
    FileKind.KRAFT: "a KRaft snapshot; not looked at",
}
GAP = re.compile(r"\d{20,}\.log\.gap-(\d+)-(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the data directory around a partition says about it. None: it says nothing."""

    is_clean: bool = False
    recovery_point: int | None = None
    log_start: int | None = None
    high_watermark: int | None = None
    cleaner_offset: int | None = None

    @classmethod
    def of(cls, disk: Disk, partition_directory: str, owner: DataDirectory | None) -> Surroundings:
        try:
            partition, _ = parse_directory_name(posixpath.basename(posixpath.abspath(partition_directory)))
        except KafkaStorage:
            return cls()
        owner = owner or peek(disk, posixpath.dirname(posixpath.abspath(partition_directory)))
        if owner is None:
            return cls()
        return cls(
            owner.marker_agrees(partition, None, last_segment_size(disk, partition_directory)),
            owner.recovery_points.get(partition),
            owner.log_starts.get(partition),
            owner.high_watermarks.get(partition),
            owner.cleaner_offsets.get(partition),
        )


def peek(disk: Disk, path: str) -> DataDirectory | None:
    """The data directory at `path`; None when its files are links or cannot be read, which the check of the directory itself reports."""
    try:
        return DataDirectory.peek(path, disk)
    except (OSError, MilepostError):
        return None


class PartitionCheck:
    def __init__(
        self,
        disk: Disk,
        path: str,
        report: Report,
        headers_only: bool = False,
        progress: Progress = lambda done: None,
        owner: DataDirectory | None = None,
    ):
        """`owner` is the data directory around the partition; it is looked at here if it is not given."""
        self.disk = disk
        self.path = path
        self.report = report
        self.headers_only = headers_only
        self.progress = progress
        self.around = Surroundings.of(disk, path, owner)
        self.bases: list[int] = []
        self._snapshots: list[int] = []
        self._pending: list[int] = []
        self._is_swapping = False
        self._irregular: set[str] = set()
        self._accepted: set[Gap] = set()
        self.unexplained_gaps: list[Gap] = []
        self.epoch_entries: list[EpochEntry] = []
        # Base offset -> what the transaction index of that segment should hold, where it does not.
        self.corrected_txn_indexes: dict[int, list[AbortedTransaction]] = {}

    def run(self, only: int | None = None) -> None:
        """Check everything, or only the segment that starts at `only`."""
        self.report.partitions += 1
        self._list_files(quiet=only is not None)
        first = self.bases[0] if self.bases else 0
        state = self.state = LogState(first, ProducerReplay(self.path, first, self._pending), lost=set(self._accepted))
        for place, base in enumerate(self.bases):
            if only is not None and base == only:
                state.next_offset, state.replay.is_exact, self._pending = base, False, []
            if only in (None, base):
                self._segment(base, self.bases[place + 1] if place + 1 < len(self.bases) else None, state, only is None)
        if only is None:
            self._check_gaps(state)
            self._check_whole_log(state)

    def _found(self, file: str, what: str, advice: str = "", remedy: Remedy | None = None, note: bool = False) -> None:
        self.report.add(Finding(file, what, advice, remedy=remedy, is_note=note))

    # 1: files.

    def _list_files(self, quiet: bool) -> None:
        usable = [name for name in files_in(self.disk, self.path) if self._is_usable(name, quiet)]
        self.bases = sorted(int(name.name[: -len(names.LOG)]) for name in usable if is_log_name(name.name))
        self._snapshots = sorted(snapshot_offset(name.name) for name in usable if is_snapshot_name(name.name))
        first = self.bases[0] if self.bases else 0
        self._pending = [offset for offset in self._snapshots if offset >= first]
        for offset in (offset for offset in self._snapshots if offset < first and not quiet):
            what = f"stands for offset {offset}, below the first segment at {first}; nothing reads it, and the next start removes it"
            self._found(snapshot_path(self.path, offset), what, note=True)
        for name in usable:
            if name.kind in SEGMENT_KINDS and not name.left_over and name.base_offset not in self.bases and not quiet:
                self._found(f"{self.path}/{name.name}", "an index without its log", "repair moves it aside", Remedy.REMOVE)

    def _is_usable(self, name: FileName, quiet: bool) -> bool:
        """Whether to look at a file; what else there is to say about it is said."""
        path = f"{self.path}/{name.name}"
        if (gap := parse_gap_name(name.name)) is not None:
            self._accepted.add(gap)
        if not is_regular(self.disk, path):
            self._irregular.add(name.name)
            if not quiet:
                self._found(path, "not a regular file, and not followed or opened", "move it out of the partition directory")
            return False
        self._is_swapping = self._is_swapping or name.left_over == names.SWAP
        if name.left_over or name.kind not in USABLE or not _is_named_right(name):
            if not quiet:
                self._found(path, LEFT_OVERS.get(name.left_over) or FOREIGN.get(name.kind, "not a file of a log, not looked at"), note=True)
            return False
        return True

    # 2: segments.

    def _segment(self, base: int, next_base: int | None, state: LogState, checks_txn_index: bool) -> None:
        where = Circumstances(
            self.path,
            base,
            next_base,
            may_be_torn=next_base is None and not self.around.is_clean,
            ends=self._known_ends(),
            headers_only=self.headers_only,
            checks_txn_index=checks_txn_index,
        )
        done = self.report.bytes
        if base > state.next_offset:
            state.gaps.append(Gap(f"{self.path}/{names.file_name(base, names.LOG)}", state.next_offset, base))
            state.next_offset = base
            state.replay.lose()
        check = SegmentCheck(self.disk, where, state, self.report, self._settle_snapshots)
        check.run(lambda position: self.progress(done + position))
        if check.corrected_txn_index is not None:
            self.corrected_txn_indexes[base] = check.corrected_txn_index

    def _known_ends(self) -> tuple[tuple[str, int], ...]:
        around, snapshot = self.around, max(self._snapshots, default=0)
        return (
            ("a snapshot stands for offset", snapshot),
            ("the recovery point is", around.recovery_point or 0),
            ("the high watermark is", around.high_watermark or 0),
            ("the log start is", around.log_start or 0),
            ("the cleaner offset is", around.cleaner_offset or 0),
        )

    def _settle_snapshots(self, offset: int) -> None:
        """The walk stands before `offset`: the snapshots up to there can be compared."""
        while self._pending and self._pending[0] <= offset:
            self._check_snapshot(self._pending.pop(0))

    def _check_snapshot(self, offset: int) -> None:
        path = snapshot_path(self.path, offset)

        def say(what: str, position: int) -> None:
            self.report.add(Finding(path, what, "repair moves it aside; the next start makes it anew", position, Remedy.REMOVE))

        try:
            self.state.replay.check_snapshot(self.disk, path, offset, say)
        except OSError as error:
            self._found(path, f"cannot be read: {error.strerror or error}")

    # 3: gaps.

    def _check_gaps(self, state: LogState) -> None:
        accepted = sum(gap in self._accepted for gap in state.gaps)
        if accepted:
            what = f"{counted(accepted, 'gap')} in the offsets accepted by an earlier repair"
            self._found(self.path, what, note=True)
        if state.looks_compacted or self.around.cleaner_offset is not None or self._is_swapping:
            return
        self.unexplained_gaps = [gap for gap in state.gaps if gap not in state.lost]
        for gap in self.unexplained_gaps:
            what = f"offsets {gap.first} to {gap.next - 1} are in no segment, and nothing looks compacted: a segment is lost"
            self._found(gap.file, what, "restore it from a replica, or accept the gap with repair --apply", Remedy.ACCEPT_GAP)

    # 4: what stands for the whole log.

    def _check_whole_log(self, state: LogState) -> None:
        end = state.next_offset
        self._settle_snapshots(end)
        for offset in self._pending:
            what = f"stands for offset {offset}, behind the end of the log at {end}"
            self._found(snapshot_path(self.path, offset), what, "the next start removes it", Remedy.REMOVE, note=not self.around.is_clean)
        if epochs.FILE_NAME not in self._irregular:
            self._check_epochs(state, end)
        if partition_metadata.FILE_NAME not in self._irregular:
            self._check_topic_id()
        self._check_checkpoints(end)

    def _check_topic_id(self) -> None:
        path = f"{self.path}/{partition_metadata.FILE_NAME}"
        try:
            read_partition_metadata(self.disk, path)
        except (OSError, MilepostError) as error:
            self._found(path, _reason(error, path), "restore it from a replica: it says which topic the directory belongs to")

    def _check_epochs(self, state: LogState, end: int) -> None:
        path = f"{self.path}/{epochs.FILE_NAME}"
        start = max(self.around.log_start or 0, self.bases[0] if self.bases else 0)
        try:
            entries = self.epoch_entries = LeaderEpochCache.read(path, self.disk)
        except (OSError, MilepostError) as error:
            self._found(path, _reason(error, path), "repair reads the epochs from the batches", Remedy.LEARN_EPOCHS)
            return
        if state.epochs_fall:
            return  # one of the batches is wrong, and which one nobody can tell: the file must not learn from it
        for finding in check_epochs(path, entries, state.changes, start, end):
            self.report.add(finding)

    def _check_checkpoints(self, end: int) -> None:
        around, parent = self.around, posixpath.dirname(posixpath.abspath(self.path))
        values = [
            (data_directory.RECOVERY_POINTS, "recovery point", around.recovery_point),
            (data_directory.LOG_STARTS, "log start", around.log_start),
            (data_directory.HIGH_WATERMARKS, "high watermark", around.high_watermark),
            (data_directory.CLEANER_OFFSETS, "cleaner offset", around.cleaner_offset),
        ]
        for name, meaning, value in values:
            if value is not None and value > end and self.bases:
                what = f"the {meaning} of {posixpath.basename(posixpath.abspath(self.path))} is {value}, behind the end of its log at {end}"
                self._found(f"{parent}/{name}", what, "repair lowers it", Remedy.REWRITE_CHECKPOINT)


def gap_name(base_offset: int, gap: Gap) -> str:
    """The name of the empty file that says: these offsets are known to be lost. Kafka does not look at it."""
    return names.file_name(base_offset, f"{names.LOG}.gap-{gap.first}-{gap.next}")


def parse_gap_name(name: str) -> Gap | None:
    found = GAP.fullmatch(name)
    return Gap(name, int(found[1]), int(found[2])) if found else None


def _is_named_right(name: FileName) -> bool:
    """Segments and snapshots have names of twenty digits; anything else is somebody else's file."""
    if name.kind not in (*SEGMENT_KINDS, FileKind.SNAPSHOT):
        return True
    return any(names.is_segment_file(name.name, suffix) for suffix in (*names.SEGMENT_SUFFIXES, names.SNAPSHOT))


def _reason(error: Exception, path: str) -> str:
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error).removeprefix(path).lstrip(":, ")
