"""When an append earns index entries: the two ways Kafka has done it.

    profile     as Kafka      unit of the rule                      offset in a time entry
    per-append  2.4.1         the whole append, one entry at most   the record's own when the batch is not compressed
    per-batch   3.9.1, 4.3.0  every batch inside the append         the last offset of its batch

Both agree for a produce request, which is one batch; they differ for a follower's appends, which carry many, and for the
cleaner's. Recovery always works per batch. A directory written under one profile is valid under the other.
"""

from __future__ import annotations

import enum


class IndexProfile(enum.Enum):
    PER_APPEND = "per-append"
    PER_BATCH = "per-batch"
