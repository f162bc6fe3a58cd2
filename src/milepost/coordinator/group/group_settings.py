"""The properties of the group coordinator, with Kafka's defaults; the names are Kafka's with the common prefix left out.

    property                                  attribute
    group.min.session.timeout.ms              min_session_timeout_ms
    group.max.session.timeout.ms              max_session_timeout_ms
    group.initial.rebalance.delay.ms          initial_rebalance_delay_ms
    group.max.size                            max_size
    offset.metadata.max.bytes                 offset_metadata_max_bytes
    offsets.retention.minutes                 offsets_retention_ms          (in milliseconds)
    offsets.retention.check.interval.ms       offsets_retention_check_interval_ms

Not Kafka's: a group whose members bring more than `max_metadata_bytes` of metadata together is as full as one with too many members.
Kafka would keep it in memory and then fail to write it.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 86_400_000
NEW_MEMBER_TIMEOUT_MS = 300_000
"""How long a newcomer's first join may wait: it cannot heartbeat yet, and its retries would pile up as new members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    max_metadata_bytes: int = 16 << 20
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * DAY_MS
    offsets_retention_check_interval_ms: int = 600_000
