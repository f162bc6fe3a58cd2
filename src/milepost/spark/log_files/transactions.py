"""What a reader of committed records must know: where the first undecided transaction starts, and which ones were aborted.

The *last stable offset* is found as a broker finds it at its start: the newest producer snapshot not behind the high watermark names the
transactions that were open there, and the batch headers from there to the high watermark tell which were opened and
decided since. A marker at or behind the high watermark decides nothing yet. A damaged or missing snapshot means an older one, or
the whole log.

Aborted transactions are those of the `.txnindex` files from the segment of the first offset on. An index with a version that is not
known, or with entries that cannot be, is an error: records of aborted transactions would pass for committed ones. An index that is
missing cannot be told from a segment without aborted transactions; the reader notices when it meets the marker (`decode`).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from milepost.errors import CorruptIndex, CorruptSnapshot
from milepost.files import Disk, read_file
from milepost.inspect import index_files
from milepost.inspect.log_file import Damage, LogFile
from milepost.log.producer_state.snapshot import decode_snapshot
from milepost.record.batch import RecordBatch
from milepost.record.control import ControlType, control_type
from milepost.segment import names
from milepost.segment.txn_index import AbortedTransaction
from milepost.spark.log_files.listing import PartitionFiles
from milepost.spark.log_files.slots import Slots


@dataclass(slots=True)
class OpenTransactions:
    """The transactions that are undecided at `offset`: producer id and first offset. A stream takes it up at its next trigger."""

    offset: int
    first_offsets: dict[int, int] = field(default_factory=dict)

    def take(self, batch: RecordBatch) -> None:
        if not batch.is_transactional:
            return
        if not batch.is_control:
            self.first_offsets.setdefault(batch.producer_id, batch.base_offset)
        elif any(control_type(record.key) in (ControlType.ABORT, ControlType.COMMIT) for record in batch.records()):
            self.first_offsets.pop(batch.producer_id, None)

    def last_stable_offset(self, start_offset: int) -> int:
        """Every transaction below is decided."""
        return max(start_offset, min([self.offset, *self.first_offsets.values()]))


def open_transactions(
    disk: Disk, files: PartitionFiles, high_watermark: int, known: OpenTransactions | None = None
) -> OpenTransactions:
    """As they stand at the high watermark, going on from what is known if that is not behind it."""
    found = known if known is not None and known.offset <= high_watermark else _from_snapshot(disk, files, high_watermark)
    bases = [segment.base_offset for segment in files.segments]
    for slot in range(max(bisect_right(bases, found.offset) - 1, 0), len(bases)):
        if bases[slot] >= high_watermark:
            break
        _replay(disk, files, slot, found, high_watermark)
    found.offset = max(found.offset, high_watermark)
    return found


def _from_snapshot(disk: Disk, files: PartitionFiles, high_watermark: int) -> OpenTransactions:
    start = files.segments[0].base_offset if files.segments else 0
    for offset in reversed(files.snapshots):
        if not start <= offset <= high_watermark:
            continue
        path = f"{files.directory}/{names.file_name(offset, names.SNAPSHOT)}"
        try:
            entries = decode_snapshot(read_file(disk, path), path)
        except (CorruptSnapshot, FileNotFoundError):
            continue
        opened = {entry.producer_id: first for entry in entries if (first := entry.current_txn_first_offset) is not None}
        return OpenTransactions(offset, opened)
    return OpenTransactions(start)


def _replay(disk: Disk, files: PartitionFiles, slot: int, found: OpenTransactions, high_watermark: int) -> None:
    segment = files.segments[slot]
    if segment.size == 0:
        return
    position, next_offset = 0, segment.base_offset
    if found.offset > segment.base_offset:
        entry = Slots.read(disk, files.sibling(segment, names.INDEX), segment.base_offset).floor(found.offset)
        if entry is not None:
            position = entry.position
    with LogFile(disk, segment.path, segment.base_offset, files.next_base(slot) - 1) as log:
        for _, batch in log.walk(min(segment.size, log.size), start=position, next_offset=next_offset):
            if isinstance(batch, Damage) or not isinstance(batch, RecordBatch):
                continue
            if batch.base_offset >= high_watermark:
                return
            if batch.base_offset >= found.offset:
                found.take(batch)


def aborted_transactions(disk: Disk, files: PartitionFiles, start: int, end: int) -> list[AbortedTransaction]:
    """Those with records between the offsets, ordered by their first offset."""
    bases = [segment.base_offset for segment in files.segments]
    found = []
    for slot in range(max(bisect_right(bases, start) - 1, 0), len(bases)):
        segment = files.segments[slot]
        entries = _entries(disk, files.sibling(segment, names.TXN_INDEX), segment.base_offset, files.next_base(slot))
        found += [each for each in entries if each.last_offset >= start and each.first_offset < end]
        # What was stable when a marker was written has no transaction that a later marker could abort.
        if any(each.last_stable_offset >= end for each in entries):
            break
    return sorted(found, key=lambda each: each.first_offset)


def _entries(disk: Disk, path: str, base_offset: int, next_base: int) -> list[AbortedTransaction]:
    try:
        entries, _ = index_files.read_txn_index(disk, path)
    except FileNotFoundError:
        return []
    for number, each in enumerate(entries):
        if each.version >> 8 or not base_offset <= each.last_offset < next_base or each.first_offset > each.last_offset:
            raise CorruptIndex(
                f"{path}: entry {number} (version {each.version}, offsets {each.first_offset} to {each.last_offset}) cannot be right in a "
                f"segment that starts at {base_offset}; rebuild it with milepost pipeline reindex, or read without kafka.isolation.level"
            )
    return entries
