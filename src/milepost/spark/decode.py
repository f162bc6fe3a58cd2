"""From the bytes of Kafka batches, of whatever file or answer, to Arrow record batches of rows.

A reader `start`s a stretch of one partition, `feed`s it bytes and in the end asks it to `finish`. The first record batch is small, so
that `show()` has its rows at once, and the size doubles from one to the next up to `batch_bytes`.

What becomes a row: every record of the wanted offsets that is no control record and, when only committed records are wanted, belongs to no
aborted transaction. Which were aborted the reader says, as (producer id, first offset, last offset): from the first on, a producer's
transactional batches are dropped, up to the last, which is that of the ABORT marker (`ANY_OFFSET` when it is not known), or up to that
marker.

Checked: CRC, structure, that offsets rise, caps of decompression. Damage is a CorruptRecord that names file and byte. An ABORT marker
that ends a transaction whose rows were given away because nobody named it is a CorruptIndex: the list was wrong. Where the stretch ends
before the marker, `undecided` says whose fate is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from milepost.codec.buffer import Buffer
from milepost.codec.compression import DEFAULT_MAX_DECOMPRESSED
from milepost.errors import CorruptIndex, CorruptRecord, InvalidRecord, MilepostError, UnsupportedCompressionType
from milepost.record.arrow_rows import Fill
from milepost.record.batch import CODEC_MASK, CONTROL_FLAG, HEADER_SIZE, LOG_APPEND_TIME_FLAG, TRANSACTIONAL_FLAG, RecordBatch
from milepost.record.control import ControlType, control_type
from milepost.record.kernel import scan_records
from milepost.record.legacy import LegacyBatch
from milepost.spark.columns import Columns
from milepost.spark.decompress import decompress
from milepost.spark.offset_range import OffsetRange
from milepost.spark.row_buffers import CAPACITY_ROWS, RowBuffers
from milepost.spark.worker_memory import batch_bytes as bytes_of_a_batch

BATCH_BYTES = 8 << 20
FIRST_BATCH_BYTES = 64 << 10
ANY_OFFSET = 2**63 - 1
Aborted = tuple[int, int, int]

REASONS = {
    Fill.BAD_SIZE: "its size field is smaller than any batch of its magic",
    Fill.BAD_MAGIC: "its magic is unknown; 0, 1 and 2 are known",
    Fill.BAD_CRC: "its CRC is wrong",
}


class RowDecoder:
    def __init__(
        self,
        columns: Columns,
        *,
        read_committed: bool = False,
        reuse_buffers: bool = False,
        batch_bytes: int | None = None,
        first_batch_bytes: int = FIRST_BATCH_BYTES,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
    ):
        self.columns = columns
        self.read_committed = read_committed
        self.max_decompressed = max_decompressed
        batch_bytes = bytes_of_a_batch(BATCH_BYTES) if batch_bytes is None else batch_bytes
        self._batch_bytes = batch_bytes
        self._target = min(first_batch_bytes, batch_bytes)
        self._special = CODEC_MASK | CONTROL_FLAG | (TRANSACTIONAL_FLAG if read_committed else 0)
        self._buffers = (
            RowBuffers.borrow(columns, batch_bytes) if reuse_buffers else RowBuffers(columns, batch_bytes, reuse=False)
        )
        self._range: OffsetRange | None = None
        self._where = ""
        self._waiting: list[Aborted] = []
        self._aborting: dict[int, int] = {}
        self._given: set[int] = set()
        self.consumed = 0
        """How far the last `feed` came, as an index of its buffer: the batch there is not whole, or not wanted."""
        self.is_done = False
        """Whether a batch was met that starts behind the offsets wanted."""

    @property
    def next_offset(self) -> int:
        """Behind the last batch seen, whether or not its records became rows."""
        return self._buffers.rows.next_offset

    @property
    def undecided(self) -> frozenset[int]:
        """Producers of whom transactional rows were given, and no marker was met behind them yet."""
        return frozenset(self._given)

    def start(
        self, offsets: OffsetRange, aborted: Sequence[Aborted] = (), *, where: str = "", first_offset: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """A new stretch; `where` names it in errors, `first_offset` is the lowest that its first batch may have."""
        if self._range is not None and self._range.partition != offsets.partition:
            yield from self.finish()
        if self._range is None or not self._range.leads_to(offsets):
            self._given = set()
        self._range = offsets
        self._where = where
        self._waiting = sorted(aborted, key=lambda each: -each[1])
        self._aborting = {}
        self.is_done = False
        self._buffers.rows.expect(first_offset)

    def close(self) -> None:
        """No batch is used any more: the buffers may serve somebody else."""
        self._buffers.give_back()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """The rows that are left."""
        if self._buffers.rows.rows:
            yield self._take()

    def feed(self, buffer: Buffer, start: int, end: int, *, position: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows of the whole batches in `buffer[start:end]`, as far as they fill record batches. `position` is where the buffer
        lies in its file."""
        assert self._range is not None, "a stretch is started first"
        low, high = self._range.start, self._range.end
        at = start
        while True:
            rows = self._buffers.rows
            at, why = rows.fill(buffer, at, end, low, high, self._special, self._target, CAPACITY_ROWS)
            self.consumed = at
            if why is Fill.SPECIAL:
                yield from self._take_special(buffer, at, position)
                at += 12 + int.from_bytes(buffer[at + 8 : at + 12], "big")
                self.consumed = at
                if self._is_full():
                    yield self._take()
            elif why is Fill.FULL:
                if rows.rows:
                    yield self._take()
                else:
                    self._buffers.grow(int.from_bytes(buffer[at + 8 : at + 12], "big"))
            elif why in (Fill.END, Fill.PARTIAL, Fill.PAST):
                self.is_done = why is Fill.PAST
                return
            else:
                raise self._damage(buffer, at, position, why)

    def _is_full(self) -> bool:
        rows = self._buffers.rows
        return bool(rows.used >= self._target or rows.rows >= CAPACITY_ROWS)

    def _take(self) -> pa.RecordBatch:
        assert self._range is not None
        self._target = min(2 * self._target, self._batch_bytes)
        return self._buffers.take(self._range.partition.topic, self._range.partition.partition)

    # Batches that are not plain.

    def _take_special(self, buffer: Buffer, at: int, position: int) -> Iterator[pa.RecordBatch]:
        if buffer[at + 16] < 2:
            yield from self._take_legacy(LegacyBatch(buffer, at), position)
            return
        batch = RecordBatch(buffer, at)
        try:
            batch.ensure_valid()
        except CorruptRecord:
            raise self._damage(buffer, at, position, Fill.BAD_CRC) from None
        if batch.is_control:
            self._pass_control(batch, position)
        elif not (self.read_committed and batch.is_transactional and self._is_aborted(batch)):
            yield from self._take_records(batch, position)
        self._buffers.rows.expect(batch.next_offset)

    def _take_records(self, batch: RecordBatch, position: int) -> Iterator[pa.RecordBatch]:
        assert self._range is not None
        data: Buffer = batch.buffer
        start, end = batch.position + HEADER_SIZE, batch.position + batch.size
        if batch.is_compressed and batch.record_count:
            try:
                data = decompress(batch.codec, batch.payload(), self.max_decompressed)
            except (InvalidRecord, UnsupportedCompressionType) as error:
                raise self._error(CorruptRecord, batch.position, position, str(error)) from error
            start, end = 0, len(data)
        arguments = (
            data, start, end, batch.record_count, batch.base_offset, batch.base_timestamp, batch.max_timestamp,
            bool(batch.attributes & LOG_APPEND_TIME_FLAG), self._range.start, self._range.end,
        )  # fmt: skip
        result = self._buffers.rows.add_records(*arguments)
        if result is Fill.FULL:
            yield from self.finish()
            result = self._buffers.rows.add_records(*arguments)
        if result is Fill.FULL:
            self._buffers.grow(end - start)
            result = self._buffers.rows.add_records(*arguments)
        if result is not Fill.END:
            raise self._damaged_records(batch, data, start, end, position)

    def _take_legacy(self, batch: LegacyBatch, position: int) -> Iterator[pa.RecordBatch]:
        assert self._range is not None
        rows, offsets = self._buffers.rows, self._range
        if batch.last_offset < rows.next_offset:
            raise self._error(CorruptRecord, batch.position, position, self._disorder(batch.last_offset))
        if batch.last_offset >= offsets.start:
            if not batch.is_valid():
                raise self._error(CorruptRecord, batch.position, position, REASONS[Fill.BAD_CRC])
            try:
                records = batch.records(self.max_decompressed)
            except (InvalidRecord, CorruptRecord, UnsupportedCompressionType) as error:
                raise self._error(CorruptRecord, batch.position, position, str(error)) from error
            for record in records:
                if offsets.start <= record.offset < offsets.end:
                    row = (record.offset, record.timestamp, int(batch.timestamp_type), record.key, record.value)
                    if not self._buffers.rows.add(*row):
                        yield from self.finish()
                        if not self._buffers.rows.add(*row):
                            self._buffers.grow(len(record.key or b"") + len(record.value or b""))
                            self._buffers.rows.add(*row)
        self._buffers.rows.expect(batch.next_offset)

    # Transactions.

    def _is_aborted(self, batch: RecordBatch) -> bool:
        while self._waiting and self._waiting[-1][1] <= batch.last_offset:
            producer_id, _, last_offset = self._waiting.pop()
            self._aborting[producer_id] = last_offset
        last_offset = self._aborting.get(batch.producer_id, -1)
        if batch.base_offset <= last_offset:
            return True
        self._given.add(batch.producer_id)
        return False

    def _pass_control(self, batch: RecordBatch, position: int) -> None:
        try:
            records = batch.records(self.max_decompressed) if self.read_committed else []
        except (InvalidRecord, CorruptRecord, UnsupportedCompressionType) as error:
            raise self._error(CorruptRecord, batch.position, position, str(error)) from error
        kind = control_type(records[0].key) if records else ControlType.UNKNOWN
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return
        was_named = self._aborting.pop(batch.producer_id, None) is not None
        if kind is ControlType.ABORT and not was_named and batch.producer_id in self._given:
            raise self._error(CorruptIndex, batch.position, position, overlooked(batch.producer_id))
        self._given.discard(batch.producer_id)

    # Damage.

    def _damage(self, buffer: Buffer, at: int, position: int, why: Fill) -> MilepostError:
        if why is Fill.DAMAGED:
            batch = RecordBatch(buffer, at)
            return self._damaged_records(batch, buffer, at + HEADER_SIZE, at + batch.size, position)
        if why is Fill.DISORDER:
            return self._error(CorruptRecord, at, position, self._disorder(RecordBatch(buffer, at).base_offset))
        return self._error(CorruptRecord, at, position, REASONS[why])

    def _disorder(self, offset: int) -> str:
        return f"it starts at offset {offset}, and {self.next_offset} is the lowest that can come here"

    def _damaged_records(self, batch: RecordBatch, data: Buffer, start: int, end: int, position: int) -> MilepostError:
        reason = "its records are damaged"
        try:
            scan_records(data, start, end, batch.record_count, batch.base_timestamp)
        except InvalidRecord as error:
            reason = f"its CRC is right and its records are damaged: {error}"
        return self._error(CorruptRecord, batch.position, position, reason)

    def _error(self, kind: type[MilepostError], at: int, position: int, reason: str) -> MilepostError:
        self.consumed = at
        place = f"{self._where}: " if self._where else ""
        return kind(f"{place}batch at byte {position + at}: {reason}")


def overlooked(producer_id: int) -> str:
    """What is wrong with an ABORT marker behind records that were taken for committed."""
    return (
        f"it aborts a transaction of producer {producer_id} that no .txnindex names, and records of it were taken for committed; "
        "run milepost pipeline reindex, or read without kafka.isolation.level"
    )
