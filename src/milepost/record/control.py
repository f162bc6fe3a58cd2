"""Control records: what a broker writes about the log into the log.

A control batch has the control bit, is not compressed, and holds one record. The record's key says what it is:

    bytes  field    meaning
    2      version  0; a later one is read as if it were 0
    2      type     0 ABORT · 1 COMMIT · 2 LEADER_CHANGE · 3 SNAPSHOT_HEADER · 4 SNAPSHOT_FOOTER
                    5 KRAFT_VERSION · 6 KRAFT_VOTERS · anything else is unknown and readers skip it

ABORT and COMMIT end a producer's transaction in this partition (types 2 to 6 appear in KRaft's own log only). Their value:

    bytes  field              meaning
    2      version            0
    4      coordinator_epoch  of the transaction coordinator that wrote the marker

The marker's batch has the transactional bit too, the producer's id and epoch, and no sequence. Always 78 bytes.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from milepost.codec.compression import Codec
from milepost.errors import InvalidArgument, InvalidRecord
from milepost.frozen_dataclass import frozen_dataclass
from milepost.record.batch import NO_PARTITION_LEADER_EPOCH
from milepost.record.builder import build_batch
from milepost.record.records import Record

_KEY = struct.Struct(">hh")
_END_TRANSACTION_VALUE = struct.Struct(">hi")
CONTROL_VERSION = 0


class ControlType(IntEnum):
    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@frozen_dataclass
class EndTransactionMarker:
    control_type: ControlType
    coordinator_epoch: int

    def __post_init__(self) -> None:
        if self.control_type not in (ControlType.ABORT, ControlType.COMMIT):
            raise InvalidArgument(f"a transaction ends with ABORT or COMMIT, not with {self.control_type!r}")


def control_type(key: bytes | None) -> ControlType:
    """What a control record is, by its key."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord(f"control record key {_shown(key)}: expected at least {_KEY.size} bytes, version and type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"control record key {_shown(key)}: version {version} is negative")
    return ControlType(number) if ControlType.ABORT <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def control_key(control_type: ControlType) -> bytes:
    if control_type == ControlType.UNKNOWN:
        raise InvalidArgument("a control record of unknown type can be read and skipped, but not written")
    return _KEY.pack(CONTROL_VERSION, control_type)


def parse_end_transaction(record: Record) -> EndTransactionMarker:
    """The marker that a control record of type ABORT or COMMIT holds."""
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"control record at offset {record.offset} is {kind.name}, expected ABORT or COMMIT")
    value = record.value
    if value is None or len(value) < _END_TRANSACTION_VALUE.size:
        raise InvalidRecord(
            f"{kind.name} marker at offset {record.offset}: value {_shown(value)}, expected at least"
            f" {_END_TRANSACTION_VALUE.size} bytes, version and coordinator epoch"
        )
    version, coordinator_epoch = _END_TRANSACTION_VALUE.unpack_from(value)
    if version < 0:
        raise InvalidRecord(f"{kind.name} marker at offset {record.offset}: value version {version} is negative")
    return EndTransactionMarker(kind, coordinator_epoch)


def end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytes:
    """The 78 bytes that end a transaction of this producer."""
    value = _END_TRANSACTION_VALUE.pack(CONTROL_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(offset, timestamp, control_key(marker.control_type), value)],
        codec=Codec.NONE,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=True,
        is_control=True,
    )


def _shown(content: bytes | None) -> str:
    return "null" if content is None else f"of {len(content)} bytes, {content[:8].hex(' ')!r}"
