"""Making a damaged directory whole again: first what would be done, then, when asked, doing it.

    plan = plan_repair("data")              reads only
    plan.steps                              what would change, one sentence each
    apply_repair(plan, kept="…")            changes it; what was replaced is kept under `kept`

What verify finds decides what is done:

    damaged bytes in a log     taken out; the batches behind them move forward. Their offsets become a gap, which is noted in an empty
                               file (`00000000000000000094.log.gap-115-119`) so that nobody takes it for a lost segment
    a wrong offset             of a batch that is whole otherwise: put right if its neighbours leave exactly one choice
    a sparse index             rebuilt from the log, with index.interval.bytes as given
    a transaction index        rebuilt from the log; entries whose marker is lost stay
    a snapshot, a stray index  moved aside: a start makes snapshots anew
    leader epochs              what batches contradict is put right by them; what the file alone knows stays
    a checkpoint               values behind the end of a log are lowered; one that does not parse becomes empty, which costs work, not
                               records

Not repaired: batches that are as they were written (their CRC is right) but make no sense, a lost topic id, a lost
`meta.properties`, files that are links or cannot be read. They stay findings.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from milepost.config.topic import LogConfig
from milepost.errors import InvalidArgument
from milepost.files import Disk
from milepost.inspect.log_file import Damage, LogFile
from milepost.inspect.paths import PathKind, Target, is_partition_name, look_at, partitions_in
from milepost.inspect.verify.findings import Finding, Remedy, Report, counted
from milepost.inspect.verify.verify import check_data_directory_files
from milepost.inspect.verify.verify_epochs import corrected
from milepost.inspect.verify.verify_partition import PartitionCheck, peek
from milepost.inspect.verify.verify_segment import Gap, first_offset_of
from milepost.log.directory import data_directory
from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.epochs import EpochEntry
from milepost.record.batch import RecordBatch
from milepost.segment import names
from milepost.segment.txn_index import AbortedTransaction
from milepost.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Step:
    """One change, said in a sentence."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


@dataclass(slots=True)
class Cut:
    """The stretches of a `.log` that go, in order, the offsets that are missing afterwards, and offsets that are put right."""

    stretches: list[tuple[int, int]] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    # (position of a batch, the offset that belongs there)
    offsets: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class PartitionPlan:
    directory: str
    end_offset: int = 0
    cuts: dict[int, Cut] = field(default_factory=dict)
    # Base offset -> suffixes of the sparse indexes to rebuild.
    indexes: dict[int, set[str]] = field(default_factory=dict)
    txn_indexes: dict[int, list[AbortedTransaction]] = field(default_factory=dict)
    removals: list[str] = field(default_factory=list)
    epochs: list[EpochEntry] | None = None
    gaps: list[tuple[int, Gap]] = field(default_factory=list)

    @property
    def is_named(self) -> bool:
        """Copies may have any name; then the data directory around them says nothing about them."""
        return is_partition_name(posixpath.basename(posixpath.abspath(self.directory)))

    @property
    def partition(self) -> TopicPartition:
        return parse_directory_name(posixpath.basename(posixpath.abspath(self.directory)))[0]


@dataclass(slots=True)
class Plan:
    path: str
    data_directory: str
    config: LogConfig
    partitions: list[PartitionPlan] = field(default_factory=list)
    # Checkpoint file -> partition -> the offset to lower it to, None to drop the line; an empty file for one that does not parse.
    checkpoints: dict[str, dict[TopicPartition, int | None] | None] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    unrepaired: list[Finding] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.steps


def plan_repair(path: str, config: LogConfig | None = None, disk: Disk | None = None) -> Plan:
    """What would make the partition directory or data directory `path` whole."""
    disk, config = disk or Disk(), config or LogConfig()
    target = look_at(disk, path)
    if target.kind is PathKind.FILE:
        raise InvalidArgument(f"{path}: a single file cannot be repaired by itself; name its partition directory")
    if target.kind is PathKind.PARTITION:
        plan = Plan(path, data_directory_of(target), config)
        directories = [target.path]
    else:
        plan = Plan(path, data_directory_of(target), config)
        directories = [f"{target.path}/{name}" for name in partitions_in(disk, target.path) if not parse_directory_name(name)[1]]
        report = Report()
        check_data_directory_files(disk, target.path, report)
        _plan_checkpoints(plan, report)
    owner = peek(disk, plan.data_directory)
    for directory in directories:
        _plan_partition(plan, disk, directory, owner)
    return plan


def data_directory_of(target: Target) -> str:
    """Where the lock and the checkpoints of what is repaired are."""
    path = posixpath.abspath(target.path)
    return path if target.kind is PathKind.DATA else posixpath.dirname(path)


def _plan_checkpoints(plan: Plan, report: Report) -> None:
    for finding in report.findings:
        if finding.remedy is Remedy.REWRITE_CHECKPOINT:
            plan.checkpoints[posixpath.basename(finding.file)] = None
            plan.steps.append(Step(finding.file, f"{finding.what}: it becomes empty"))
        else:
            plan.unrepaired.append(finding)


def _plan_partition(plan: Plan, disk: Disk, directory: str, owner: DataDirectory | None) -> None:
    report = Report()
    check = PartitionCheck(disk, directory, report, owner=owner)
    check.run()
    partition = PartitionPlan(directory, check.state.next_offset)
    handled: set[tuple[Remedy, str]] = set()
    for finding in (*report.findings, *report.notes):
        if finding.remedy is None:
            if not finding.is_note:
                plan.unrepaired.append(finding)
        elif (finding.remedy, finding.file) not in handled:
            handled.add((finding.remedy, finding.file))
            _plan_finding(plan, partition, check, finding)
    for gap in check.unexplained_gaps:
        partition.gaps.append((max((base for base in check.bases if base <= gap.first), default=gap.first), gap))
        plan.steps.append(Step(gap.file, f"offsets {gap.first} to {gap.next - 1} are accepted as lost"))
    for base, cut in partition.cuts.items():
        if cut.stretches:
            partition.indexes[base] = {names.INDEX, names.TIME_INDEX}
    for base, suffixes in sorted(partition.indexes.items()):
        for suffix in sorted(suffixes):
            what = f"rebuilt from the log, index.interval.bytes {plan.config.index_interval_bytes}"
            plan.steps.append(Step(f"{directory}/{names.file_name(base, suffix)}", what))
    if handled:
        plan.partitions.append(partition)


def _plan_finding(plan: Plan, partition: PartitionPlan, check: PartitionCheck, finding: Finding) -> None:
    name = posixpath.basename(finding.file)
    base = names.offset_of(name) or 0
    if finding.remedy is Remedy.CUT:
        _plan_cut(plan, partition, check, base, finding.file)
    elif finding.remedy is Remedy.REBUILD_INDEXES:
        partition.indexes.setdefault(base, set()).add(posixpath.splitext(name)[1])
    elif finding.remedy is Remedy.REBUILD_TXN_INDEX:
        partition.txn_indexes[base] = check.corrected_txn_indexes[base]
        plan.steps.append(Step(finding.file, f"rebuilt from the log, {counted(len(partition.txn_indexes[base]), 'aborted transaction')}"))
    elif finding.remedy is Remedy.REMOVE:
        partition.removals.append(finding.file)
        plan.steps.append(Step(finding.file, f"{finding.what}: it is moved aside"))
    elif finding.remedy is Remedy.LEARN_EPOCHS:
        start = max(check.around.log_start or 0, check.bases[0] if check.bases else 0)
        state = check.state
        partition.epochs = corrected(check.epoch_entries, state.changes, state.last_offset, start, state.next_offset)
        becomes = ", ".join(f"{entry.epoch} from {entry.start_offset}" for entry in partition.epochs)
        plan.steps.append(Step(finding.file, f"{finding.what}: it becomes {becomes or 'empty'}"))
    elif finding.remedy is Remedy.REWRITE_CHECKPOINT:
        _plan_lowering(plan, partition, finding)


def _plan_cut(plan: Plan, partition: PartitionPlan, check: PartitionCheck, base: int, path: str) -> None:
    """Walk the log once more for the exact stretches."""
    cut = partition.cuts[base] = Cut()
    next_base = next((later for later in check.bases if later > base), None)
    next_offset, hole = base, None
    with LogFile(check.disk, path, base, None if next_base is None else next_base - 1) as log:
        for _, found in log.walk():
            if isinstance(found, Damage):
                # A hole right behind a hole: nothing is known about the offset between them.
                hole = found if hole is None else Damage(hole.position, found.end, found.reason, found.is_tail)
                continue
            if hole is not None:
                _plan_stretch(cut, path, hole, next_offset, first_offset_of(found, next_offset))
            next_offset, hole = found.last_offset + 1, None
    if hole is not None:
        _plan_stretch(cut, path, hole, next_offset, next_offset if next_base is None else next_base)
    for position, offset in cut.offsets:
        plan.steps.append(Step(path, f"the batch at position {position} gets offset {offset} back"))
    for start, end in cut.stretches:
        plan.steps.append(Step(path, f"bytes {start} to {end} are taken out"))
    for gap in cut.gaps:
        partition.gaps.append((base, gap))
        plan.steps.append(Step(path, f"offsets {gap.first} to {gap.next - 1} become a gap"))


def _plan_stretch(cut: Cut, path: str, hole: Damage, next_offset: int, following: int) -> None:
    """Put the offset right if exactly one fits between its neighbours, else take the bytes out."""
    batch = hole.batch
    if hole.is_offset and batch is not None and batch.size == hole.size:
        offsets = batch.last_offset_delta + 1 if isinstance(batch, RecordBatch) else 0 if batch.is_compressed else 1
        if offsets == following - next_offset:
            cut.offsets.append((hole.position, next_offset))
            return
    cut.stretches.append((hole.position, hole.end))
    if following > next_offset:
        cut.gaps.append(Gap(path, next_offset, following))


def _plan_lowering(plan: Plan, partition: PartitionPlan, finding: Finding) -> None:
    name = posixpath.basename(finding.file)
    lowered = plan.checkpoints.setdefault(name, {})
    is_start = name == data_directory.LOG_STARTS
    if lowered is not None:
        lowered[partition.partition] = None if is_start else partition.end_offset
    to = "its line is dropped" if is_start else f"it becomes {partition.end_offset}"
    plan.steps.append(Step(finding.file, f"{finding.what}: {to}"))
