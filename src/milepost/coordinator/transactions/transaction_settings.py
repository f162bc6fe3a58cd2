"""The properties of the transaction coordinator, with Kafka's defaults.

    property                                                       attribute
    transaction.max.timeout.ms                                     max_timeout_ms
    transactional.id.expiration.ms                                 id_expiration_ms
    transaction.abort.timed.out.transaction.cleanup.interval.ms    abort_interval_ms
    transaction.remove.expired.transaction.cleanup.interval.ms     remove_expired_interval_ms
    add.partitions.to.txn.retry.backoff.max.ms                     add_partitions_wait_ms
    feature transaction.version                                    transaction_version

Not Kafka's: ids that take more than `most_unused_bytes` of memory and had no transaction since their producer began are forgotten before
they expire, the oldest first: any client may invent ids. Their producers get the error of an unknown id, and begin again.

`transaction_version` decides the format of the log's records and how the coordinator itself ends a transaction. What a client does
follows from the versions of its requests.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000
    add_partitions_wait_ms: int = 100
    transaction_version: int = 2
    most_unused_bytes: int = 64 << 20
