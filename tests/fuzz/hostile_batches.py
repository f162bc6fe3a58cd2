"""Record batches as a hostile producer sends them: real ones, with numbers changed and the checksum put right again.

Without a right checksum nothing behind the check would be reached, so nine of ten get one.
"""

from __future__ import annotations

import random
import struct

from milepost.codec.compression import Codec
from milepost.codec.crc32c import crc32c
from milepost.record.batch import HEADER_SIZE
from milepost.record.builder import build_batch
from milepost.record.control import ControlType, EndTransactionMarker, end_transaction_batch
from milepost.record.records import Record

CORNER_BYTES = [0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]
# Where the numbers of a batch's header are, and how wide.
HEADER_FIELDS = [
    *((0, "q"), (8, "i"), (12, "i"), (16, "b"), (21, "h"), (23, "i")),
    *((27, "q"), (35, "q"), (43, "q"), (51, "h"), (53, "i"), (57, "i")),
]
KEYS = (None, b"k", b"key" * 20)
VALUES = (None, b"", b"v" * 100)


def hostile_batch(rng: random.Random, producer_id: int, producer_epoch: int) -> bytes:
    """Four of ten are as they should be; of producer -1, or of the one that is given."""
    if rng.random() < 0.05:
        marker = EndTransactionMarker(rng.choice((ControlType.ABORT, ControlType.COMMIT)), 0)
        return end_transaction_batch(marker, offset=0, timestamp=0, producer_id=max(producer_id, 0), producer_epoch=0)
    count = rng.choice((1, 1, 2, 5))
    rows = [
        Record(offset, rng.choice((-1, 0, 1_700_000_000_000)), rng.choice(KEYS), rng.choice(VALUES)) for offset in range(count)
    ]
    batch = build_batch(
        rows,
        base_offset=0,
        codec=rng.choice(list(Codec)),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1 if producer_id < 0 else rng.choice((0, 0, count, 2**31 - 2)),
        is_transactional=producer_id >= 0 and rng.random() < 0.5,
    )
    if rng.random() < 0.4:
        return batch
    damaged = bytearray(batch)
    for _ in range(rng.choice((1, 1, 2, 4))):
        damage(damaged, rng)
    if len(damaged) >= HEADER_SIZE and rng.random() < 0.9:
        damaged[17:21] = struct.pack(">I", crc32c(memoryview(damaged)[21:]))
    return bytes(damaged)


def damage(batch: bytearray, rng: random.Random) -> None:
    kind = rng.randrange(6)
    if kind == 0 and len(batch) >= HEADER_SIZE:
        at, letter = rng.choice(HEADER_FIELDS)
        half = 1 << 8 * struct.calcsize(letter) - 1
        struct.pack_into(f">{letter}", batch, at, rng.choice((0, 1, -1, 5, half - 1, -half, rng.randrange(-half, half))))
    elif kind == 1 and batch:
        batch[rng.randrange(len(batch))] = rng.choice([*CORNER_BYTES, rng.randrange(256)])
    elif kind == 2 and len(batch) > HEADER_SIZE:
        batch[rng.randrange(HEADER_SIZE, len(batch))] = rng.choice([*CORNER_BYTES, rng.randrange(256)])
    elif kind == 3:
        del batch[rng.randrange(len(batch) + 1) :]
    elif kind == 4:
        batch += rng.choice([b"\0", bytes(batch), rng.randbytes(30)])
    elif len(batch) > 12:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
