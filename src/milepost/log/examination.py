"""A look at a produced batch before the log is asked to take it: at once where that is quick, on another thread where it is not.

What a batch costs is not told by its size: a kilobyte of zstd can hold a million records, which are decompressed, checked and perhaps
compressed anew. `examine` does all of that, whatever the batch's place in the log is going to be, and touches nothing but the batch: so
any thread may do it. `append_as_leader` takes what it found and gives the batch its place.

Decompressed bytes are bounded by whoever asks. Beyond that the batch is too large (10), which a Java producer answers by splitting it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from milepost.errors import DecompressedTooLarge, MilepostError, RecordTooLarge
from milepost.log.append_info import CLIENT, checked_batches
from milepost.log.validation import TakesLong, Validator, only_batch
from milepost.record.batch import CODEC_MASK, HEADER_SIZE

if TYPE_CHECKING:
    from milepost.files.types import ReadableBuffer
    from milepost.record.batch import RecordBatch

QUICK_BYTES = 1 << 20
"""What is decompressed, or lies there uncompressed, and is checked in a few milliseconds."""


@dataclass(slots=True)
class Budget:
    """How many decompressed bytes a request may still come to."""

    left: int
    limit: str = ""
    """Its name and value, for whoever exceeds it."""
    refused: int = 0
    """Batches that were beyond it."""

    def exceeded(self, size: int) -> RecordTooLarge:
        self.left = 0
        self.refused += 1
        return RecordTooLarge(f"the batch of {size} bytes is decompressed to more than the request may: {self.limit}")


@dataclass(slots=True)
class Examined:
    """A produced batch, good for a log with this validator; or why it is refused."""

    validator: Validator
    error: MilepostError | None = None
    found: tuple[RecordBatch, int, int] | None = None
    """As it is to be stored, its largest timestamp, and the record that brought it."""


def examine(validator: Validator, data: ReadableBuffer, now_ms: int, budget: Budget) -> Examined:
    """Take as long as it takes."""
    return _examine(validator, data, now_ms, budget, budget.left, is_brief=False)


def examine_quickly(validator: Validator, data: ReadableBuffer, now_ms: int, budget: Budget) -> Examined:
    """Raises TakesLong where `examine` might take more than a few milliseconds."""
    if len(data) > QUICK_BYTES + HEADER_SIZE:
        raise TakesLong(f"the batch has {len(data)} bytes")
    return _examine(validator, data, now_ms, budget, min(QUICK_BYTES, budget.left), is_brief=True)


def is_plain(validator: Validator, data: ReadableBuffer) -> bool:
    """Whether the bytes of a batch tell its cost: they are not compressed, and will not be."""
    return not data[22] & CODEC_MASK and validator.keeps_codec and len(data) <= QUICK_BYTES + HEADER_SIZE


def _examine(validator: Validator, data: ReadableBuffer, now_ms: int, budget: Budget, most: int, is_brief: bool) -> Examined:
    examined = Examined(validator)
    try:
        batch = only_batch(checked_batches(data, CLIENT, validator.config.max_message_bytes))
        if batch.is_compressed and not budget.left:
            raise budget.exceeded(batch.size)
        try:
            batch, largest, newest, unpacked = validator.examine(batch, now_ms, CLIENT, most, is_brief)
        except DecompressedTooLarge as error:
            if most < budget.left:
                raise TakesLong(str(error)) from error
            raise budget.exceeded(batch.size) from error
        budget.left -= min(unpacked, budget.left)
        examined.found = batch, largest, newest
    except TakesLong:
        raise
    except MilepostError as error:
        # Without the frames that it came through: they hold what was decompressed, and this one, which holds the error.
        error.__cause__ = error.__context__ = None
        examined.error = error.with_traceback(None)
    return examined
