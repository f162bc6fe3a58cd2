"""Rebuilding the indexes of a stretch of segments, exactly as milepost's own recovery does after a crash.

Recovery runs on an overlay: it reads the `.log` files and writes in memory. What it made of `.index`, `.timeindex` and
`.txnindex` is compared with the disk, and a file that differs is replaced as a whole (written beside, synced, renamed). So the log itself
is never touched, a killed task leaves the old file or the new one, and a second run finds nothing to do.

Damage in a log is not repaired here: it is reported, and the indexes lead around it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from milepost.clock import ManualClock, SystemClock
from milepost.config.topic import LogConfig
from milepost.errors import MilepostError, SegmentOffsetOverflow
from milepost.files import Disk, HandlePool, Overlay, read_file, write_file
from milepost.log.producer_state.producers import ProducerStateManager
from milepost.record.batch import RecordBatch
from milepost.record.batches import AnyBatch
from milepost.segment import names, recovery
from milepost.segment.segment import Segment
from milepost.segment.txn_index import AbortedTransaction
from milepost.spark.jobs.stretch import Stretch

INDEXES = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX)
MOST_BYTES = 1 << 30
TEMPORARY = ".reindex.tmp"


@dataclass(frozen=True, slots=True)
class RebuildTask:
    stretch: Stretch
    later: tuple[int, ...]
    """The bases of the segments behind the stretch."""
    log_start: int
    config: LogConfig
    run: str


@dataclass(slots=True)
class Rebuilt:
    segments: int = 0
    batches: int = 0
    log_bytes: int = 0
    replaced: int = 0
    unchanged: int = 0
    damage: tuple[str, ...] = ()


def rebuild(task: RebuildTask) -> Rebuilt:
    return _Rebuild(task).run()


class _Rebuild:
    def __init__(self, task: RebuildTask):
        self.task = task
        self.disk = Disk()
        self.overlay = Overlay()
        self.pool = HandlePool(self.overlay)
        self.producers = self._producers_at(task.stretch.bases[0])
        self.result = Rebuilt()

    def run(self) -> Rebuilt:
        bases = self.task.stretch.bases
        for place, base in enumerate(bases):
            segment = self._segment(base)
            known = self._producers_at(base)
            if known.map_end_offset == base:
                # A snapshot knows more than the batches before it where compaction has been.
                self.producers = known
            try:
                self._recover(segment, (*bases[place + 1 :], *self.task.later))
                self._replace(segment)
            except (SegmentOffsetOverflow, OSError) as error:
                self.result.damage += (f"{segment.log.path}: {error}; its indexes were left as they are",)
            finally:
                segment.close_handles()
        return self.result

    def _producers_at(self, base: int) -> ProducerStateManager:
        """As the newest snapshot up to there says. Time stands still: how old a producer is does not change what it wrote."""
        producers = ProducerStateManager(self.task.stretch.directory, Overlay(), ManualClock(0))
        producers.truncate_and_reload(self.task.log_start, base)
        return producers

    def _segment(self, base: int) -> Segment:
        return Segment(self.pool, self.task.stretch.directory, base, self.task.config, SystemClock(), random.Random(0))

    def _recover(self, segment: Segment, later: tuple[int, ...]) -> None:
        result, path = self.result, segment.log.path
        result.log_bytes += segment.size
        segment.txn_index.reset()

        def on_batch(batch: AnyBatch) -> None:
            result.batches += 1
            if isinstance(batch, RecordBatch) and batch.producer_id >= 0:
                self._replay(batch, segment)

        found = recovery.recover(segment, on_batch, lambda: self._following(later), later[0] if later else None)
        self.producers.update_map_end_offset(found.next_offset)
        result.segments += 1
        if found.bytes_cut:
            kind = f"{found.bytes_cut} bytes behind offset {found.next_offset - 1} are no whole batch"
            result.damage += (
                f"{path}: {kind}; " + ("milepost repair cuts them off" if later else "the next start cuts them off"),
            )
        for hole in found.holes:
            result.damage += (f"{path}: bytes {hole.position} to {hole.end} are no valid batch; see milepost verify",)

    def _replay(self, batch: RecordBatch, segment: Segment) -> None:
        ended = self.producers.replay(batch)
        if ended is None:
            return
        if ended.is_aborted:
            stable = self.producers.last_stable_offset(ended)
            segment.txn_index.append(AbortedTransaction(ended.producer_id, ended.first_offset, ended.last_offset, stable))
        self.producers.complete_transaction(ended)

    def _following(self, later: tuple[int, ...]) -> int | None:
        for base in later:
            segment = self._segment(base)
            try:
                if recovery.has_valid_batch(segment):
                    return base
            finally:
                segment.close_handles()
        return None

    def _replace(self, segment: Segment) -> None:
        """Put those indexes on the disk that are not there like this."""
        for kind in INDEXES:
            path = segment.path(kind)
            if not self.overlay.exists(path):
                continue
            made = read_file(self.overlay, path, MOST_BYTES)
            if self._is_there(path, made):
                self.result.unchanged += 1
                continue
            # A name of this run: a task of a run that was killed may still be writing.
            temporary = f"{path}.{self.task.run}{TEMPORARY}"
            write_file(self.disk, temporary, made, sync=True)
            self.disk.rename(temporary, path)
            self.result.replaced += 1
        self.disk.sync_directory(segment.directory)

    def _is_there(self, path: str, made: bytes) -> bool:
        try:
            return read_file(self.disk, path, MOST_BYTES) == made
        except (OSError, MilepostError):
            return False
