"""What one task reads of a log's files: pieces of segments, each with its byte range and its offsets.

The file is opened by its name and must be the one that was planned: same inode, and no shorter. If it is not, it may have been

    renamed by retention or by the cleaner   it lies there as `.deleted` for a while, with the same inode: read that
    replaced by the cleaner, or rolled away  the offsets that are left are planned again, once, with the files as they are now
    deleted                                  data loss, an error unless failOnDataLoss is false

When only committed records are read and a transaction does not end within the pieces, its marker is looked up behind them: that it was
not aborted is not taken from an index alone.

Damage is an error that names file and byte (mode strict), or is put aside and passed over (mode quarantine). Zeros up to the end of a
file are a preallocated end and no damage.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from milepost.errors import CorruptRecord, KafkaStorage
from milepost.files import Disk
from milepost.inspect.log_file import LogFile
from milepost.record.batch import RecordBatch
from milepost.segment import names
from milepost.spark.log_files.boundary import batch_at
from milepost.spark.log_files.markers import ensure_committed
from milepost.spark.log_files.piece import Piece, PieceSplit
from milepost.spark.log_files.quarantine import put_aside
from milepost.spark.log_files.read_settings import ReadSettings
from milepost.spark.log_files.replanning import SegmentChanged, SegmentsOverlap, plan_again

if TYPE_CHECKING:
    import pyarrow as pa

    from milepost.spark.columns import Columns
    from milepost.spark.decode import RowDecoder

logger = logging.getLogger("milepost.spark")

CHUNK = 2 << 20
EXTRA = 64 << 10
"""How much is read behind a piece whose end is only a guess, to see the batch that ends it."""
SIZE_IS_KNOWN = 12


@dataclass(frozen=True, slots=True)
class FileSplit(PieceSplit):
    pieces: tuple[Piece, ...]
    aborted: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each piece: producer, first and last offset of the aborted transactions in it."""
    settings: ReadSettings

    def read(self, columns: Columns, *, reuse_buffers: bool = False) -> Iterator[pa.RecordBatch]:
        from milepost.spark.decode import RowDecoder

        decoder = RowDecoder(columns, read_committed=self.settings.read_committed, reuse_buffers=reuse_buffers)
        reader = PieceReader(Disk(), self.settings, decoder)
        following = [*self.pieces[1:], None]
        try:
            for piece, aborted, behind in zip(self.pieces, self.aborted, following, strict=True):
                yield from reader.read(piece, aborted)
                if decoder.undecided and (behind is None or not piece.offsets.leads_to(behind.offsets)):
                    ensure_committed(reader.disk, self.settings, piece.partition, piece.end, decoder.undecided)
            yield from decoder.finish()
        finally:
            decoder.close()


class PieceReader:
    """Reads pieces, one after the other, into a decoder."""

    def __init__(self, disk: Disk, settings: ReadSettings, decoder: RowDecoder):
        self.disk = disk
        self.settings = settings
        self.decoder = decoder
        self._buffer = bytearray(CHUNK)
        self._is_begun = False

    def read(self, piece: Piece, aborted: tuple[tuple[int, int, int], ...]) -> Iterator[pa.RecordBatch]:
        self._is_begun = False
        try:
            yield from self._read(piece, aborted)
        except SegmentChanged as change:
            # Rows up to the decoder's offset are given already: only what lies behind is planned again.
            start = max(piece.start, min(self.decoder.next_offset, piece.end)) if self._is_begun else piece.start
            for fresh in plan_again(self.disk, self.settings, replace(piece, start=start), change):
                yield from self._read(fresh, aborted)
        except OSError as error:
            raise KafkaStorage(f"{error.filename or piece.segment.path}: {error.strerror or error}") from error

    def _read(self, piece: Piece, aborted: tuple[tuple[int, int, int], ...]) -> Iterator[pa.RecordBatch]:
        fd = self._open(piece)
        try:
            first_offset = piece.segment.base_offset if piece.position == 0 else 0
            yield from self.decoder.start(piece.offsets, aborted, where=piece.segment.path, first_offset=first_offset)
            self._is_begun = True
            yield from self._feed(piece, fd)
        finally:
            self.disk.close(fd)

    def _open(self, piece: Piece) -> int:
        segment = piece.segment
        for path in (segment.path, segment.path + names.DELETED):
            try:
                fd = self.disk.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise KafkaStorage(f"{path}: {error.strerror}; planned as a segment of {piece.partition}") from error
            status = self.disk.status(fd)
            if (status.st_ino, status.st_dev) == (segment.inode, segment.device):
                if status.st_size >= piece.end_position:
                    return fd
                self.disk.close(fd)
                raise SegmentChanged(
                    f"{path}: cut to {status.st_size} bytes since the query was planned, when it had {segment.size}"
                )
            self.disk.close(fd)
        raise SegmentChanged(f"{segment.path}: deleted or replaced since the query was planned")

    def _feed(self, piece: Piece, fd: int) -> Iterator[pa.RecordBatch]:
        decoder = self.decoder
        position, filled, end = piece.position, 0, piece.end_position
        last = end if piece.is_exact else piece.data_end
        while True:
            buffer = self._buffer
            wanted = min(len(buffer) - filled, end - position - filled)
            if wanted > 0:
                got = self.disk.pread_into(fd, memoryview(buffer)[filled : filled + wanted], position + filled)
                if got < wanted:
                    raise SegmentChanged(
                        f"{piece.segment.path}: {got} bytes at byte {position + filled}, where {wanted} were planned"
                    )
                filled += got
            try:
                yield from decoder.feed(buffer, 0, filled, position=position)
            except CorruptRecord as damage:
                position, filled = self._pass_damage(piece, position + decoder.consumed, damage), 0
                if position >= last:
                    return
                end = min(max(end, position + EXTRA), last)
                continue
            used = decoder.consumed
            if decoder.is_done or (decoder.next_offset >= piece.end and piece.end < piece.next_base):
                self._check_limit(piece, position + used)
                return
            memory = memoryview(buffer)
            memory[: filled - used] = memory[used:filled]
            position, filled = position + used, filled - used
            needed = batch_size(buffer) if filled >= SIZE_IS_KNOWN else 0
            if position + needed > piece.data_end or (filled and position + filled >= piece.data_end):
                what = f"it has {needed} bytes" if needed else "it has no header"
                torn = CorruptRecord(
                    f"{piece.segment.path}: batch at byte {position}: {what}, and {piece.data_end - position} bytes are left"
                )
                position, filled = self._pass_damage(piece, position, torn), 0
                if position >= last:
                    return
                end = min(max(end, position + EXTRA), last)
            elif needed > len(buffer):
                self._buffer = bytearray(needed)
                self._buffer[:filled] = buffer[:filled]
            elif position + filled >= end:
                if filled == 0 and (piece.is_exact or position >= piece.data_end):
                    self._check_limit(piece, position)
                    return
                # A batch that runs over the end, or an end that was only a guess: go on until a batch is behind the offsets.
                end = min(end + max(EXTRA, needed), piece.data_end)

    def _check_limit(self, piece: Piece, position: int) -> None:
        """Offsets of the next segment in this one: two files that overlap, or a swap of the cleaner in the middle of the listing."""
        reached = self.decoder.next_offset
        is_past = self.decoder.is_done and piece.end == piece.next_base and position < piece.data_end
        if reached <= piece.next_base and not is_past:
            return
        sentence = (
            f"{piece.segment.path}: the batch {'at' if is_past else 'before'} byte {position} has offsets from {piece.next_base} on, "
            "where the next segment starts; offsets must rise from file to file"
        )
        if self.settings.quarantine_path is None:
            raise SegmentsOverlap(sentence)
        logger.warning("%s; they are read from the next segment only", sentence)

    def _pass_damage(self, piece: Piece, position: int, damage: CorruptRecord) -> int:
        """Where to go on behind damage at `position`; raises in mode strict."""
        with LogFile(self.disk, piece.segment.path, piece.segment.base_offset, piece.next_base - 1) as log:
            end = min(piece.data_end, log.size)
            found = log.damage_at(position, end, self.decoder.next_offset, str(damage))
            if found.is_zero:
                return end
            if self.settings.quarantine_path is None:
                raise damage
            behind = None if found.is_tail else batch_at(log, found.end, end)
            resumed_at = behind.base_offset if isinstance(behind, RecordBatch) else piece.end
            offsets = (self.decoder.next_offset, resumed_at)
            put_aside(self.disk, self.settings.quarantine_path, piece.partition, log, position, found.end, offsets, str(damage))
            return found.end


def batch_size(buffer: bytearray) -> int:
    """What the batch at the start of the buffer says it has."""
    return SIZE_IS_KNOWN + int.from_bytes(buffer[8:12], "big", signed=True)
