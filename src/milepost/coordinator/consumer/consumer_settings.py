"""The properties of consumer groups, with Kafka's defaults; the names are Kafka's without `group.consumer.`.

    property                                 attribute
    group.consumer.session.timeout.ms        session_timeout_ms
    group.consumer.heartbeat.interval.ms     heartbeat_interval_ms
    group.consumer.assignment.interval.ms    assignment_interval_ms: least time between two target assignments of a group; 0: none
    group.consumer.max.size                  max_size
    group.consumer.assignors                 assignors, the default first
    group.consumer.migration.policy          migration_policy: disabled, upgrade, downgrade or bidirectional

A session timeout of a member that speaks the classic protocol is its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupSettings:
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.migration_policy in ("bidirectional", "downgrade")
