"""What is found out about a produced batch before it is appended."""

from __future__ import annotations

import gc
import gzip
import struct

from milepost.codec.crc32c import crc32c
from milepost.config.topic import LogConfig
from milepost.errors import RecordTooLarge
from milepost.log.examination import Budget, Examined, examine
from milepost.log.validation import Validator

GZIP = 1
NOW = 1_700_000_000_000


def bomb(size: int) -> memoryview:
    payload = gzip.compress(bytes(size), 9)
    head = struct.pack(">hiqqqhii", GZIP, 0, NOW, NOW, -1, -1, -1, 1)
    return memoryview(
        bytearray(struct.pack(">qiibI", 0, 9 + len(head) + len(payload), -1, 2, crc32c(head + payload)) + head + payload)
    )


def examined() -> Examined:
    return examine(Validator(LogConfig(), exact_time_offset=False), bomb(8 << 20), NOW, Budget(1 << 20, "a limit"))


def test_batch_that_is_decompressed_to_more_than_its_request_may_is_refused():
    refused = examined()
    assert type(refused.error) is RecordTooLarge
    assert "is decompressed to more than the request may: a limit" in str(refused.error)
    assert refused.found is None


def test_refused_batch_leaves_nothing_for_the_collector():
    """What was decompressed would be part of it, and stay until it comes."""
    examined()
    gc.collect()
    examined()
    assert gc.collect() == 0
