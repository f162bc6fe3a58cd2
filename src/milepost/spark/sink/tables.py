"""Spark's record batches in groups: small ones make small Kafka batches, so a few megabytes are written together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_BYTES = 16 << 20


def tables(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    used = 0
    for batch in batches:
        if batch.num_rows:
            group.append(batch)
            used += batch.nbytes
        if used >= GROUP_BYTES:
            yield group
            group, used = [], 0
    if group:
        yield group
