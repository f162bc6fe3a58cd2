"""Messages of magic 0 and 1: as Kafka 2.4.1 wrote them, and as no builder would make them."""

from __future__ import annotations

import struct
import zlib

from milepost.codec.compression import Codec, compress
from milepost.record.legacy import LegacyBatch

V0 = bytes.fromhex("0000000000000005 00000010 1fecd70a 00 00 00000001 6b 00000001 76")
V1 = bytes.fromhex("0000000000000005 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76")


V1_GZIP_22_23 = bytes.fromhex(
    "000000000000001700000059a5ce60f601010000018bcfe56abfffffffff000000431f8b08000000000000ff63608003d982159aa58c400663f7f9a759cb"
    "800cf6ecd44a5d0303e3ff4000550492976d58716a025ce17eb84243b04200bd8a01ff52000000"
)
V1_GZIP_APPEND_TIME_37_38 = bytes.fromhex(
    "0000000000000026000000662aa81c530109000001a1de8b045affffffff000000501f8b08000000000000ff63608003add931d5468c1c0c0c8c0bef75b3"
    "44014598b20d80a4506241416a5e8a4249666eaa427a55668182015407234857b9c6c202345d865875190200438047ee6c000000"
)


def message(
    magic: int, offset: int, value: bytes | None, *, key: bytes | None = None, attributes: int = 0, timestamp: int = 0
) -> bytes:
    """An independent writer, so that what no builder would make can be made here."""

    def sized(content: bytes | None) -> bytes:
        return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content

    content = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"") + sized(key) + sized(value)
    return struct.pack(">qiI", offset, 4 + len(content), zlib.crc32(content)) + content


def wrapper(
    inner: bytes, *, magic: int = 1, offset: int = 9, codec: Codec = Codec.GZIP, timestamp: int = 5, flags: int = 0
) -> LegacyBatch:
    return LegacyBatch(message(magic, offset, compress(codec, inner, magic=2), attributes=flags | codec, timestamp=timestamp))


def offsets(batch: LegacyBatch) -> list[int]:
    return [record.offset for record in batch.records()]
