"""How each transaction of a partition ended: committed, aborted, or not yet.

A transactional batch does not say how its transaction ends; a later marker of the same producer does, perhaps segments away. So
the whole partition is walked once, and each producer gets a list of its transactions by first offset.

    none        the batch belongs to no transaction
    committed   a COMMIT marker of its producer follows
    aborted     an ABORT marker of its producer follows
    open        no marker follows, in what is there of the log
"""

from __future__ import annotations

from bisect import bisect_right

from milepost.errors import MilepostError
from milepost.files import Disk
from milepost.inspect.log_file import LogFile
from milepost.inspect.paths import segment_bases
from milepost.record.batch import RecordBatch
from milepost.record.batches import AnyBatch
from milepost.record.control import ControlType, control_type
from milepost.segment import names

STATES = ("committed", "aborted", "open", "none")
ENDINGS = {ControlType.COMMIT: "committed", ControlType.ABORT: "aborted"}


class TransactionStates:
    def __init__(self, disk: Disk, partition_directory: str):
        # Producer id -> first offsets of its transactions, ascending, and how each ended.
        self._firsts: dict[int, list[int]] = {}
        self._endings: dict[int, list[str]] = {}
        for base in segment_bases(disk, partition_directory):
            with LogFile(disk, f"{partition_directory}/{names.file_name(base, names.LOG)}", base) as log:
                for _, batch in log.walk(check_offsets=False):
                    if isinstance(batch, RecordBatch) and batch.is_transactional:
                        self._add(batch)

    def _add(self, batch: RecordBatch) -> None:
        firsts = self._firsts.setdefault(batch.producer_id, [])
        endings = self._endings.setdefault(batch.producer_id, [])
        is_open = bool(endings) and endings[-1] == "open"
        if not batch.is_control:
            if not is_open:
                firsts.append(batch.base_offset)
                endings.append("open")
        elif is_open and (ending := marker_ending(batch)):
            endings[-1] = ending

    def of(self, batch: AnyBatch) -> str:
        if not batch.is_transactional or not isinstance(batch, RecordBatch):
            return "none"
        if batch.is_control:
            return marker_ending(batch) or "none"
        firsts = self._firsts.get(batch.producer_id, [])
        slot = bisect_right(firsts, batch.base_offset) - 1
        return self._endings[batch.producer_id][slot] if slot >= 0 else "open"


def marker_ending(batch: RecordBatch) -> str | None:
    """What a control batch does to its producer's transaction; None for other control records and for an emptied batch."""
    try:
        return next((ENDINGS.get(control_type(record.key)) for record in batch.records()), None)
    except MilepostError:
        return None
