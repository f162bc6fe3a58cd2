"""Topics that are found in a data directory and that nobody has written down: Kafka left them behind.

Their records are in the directory, but not what Kafka keeps in ZooKeeper or in its own log of metadata:

    settings       how long records stay is not known, so they stay: `retention.ms` and `retention.bytes` are -1 until somebody sets
                   them. Internal topics get the settings that their coordinators need: they are compacted.
    producer ids   those that producers and transactional ids have are not given away again: a new producer with the id of an
                   old one would have its first batches taken for repetitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.broker.parts import Parts
    from milepost.cluster.solo import SoloCluster


def take_over(broker: Parts, cluster: SoloCluster, topics: list[str]) -> None:
    """Topics that were just adopted, and whose logs are loaded."""
    if not topics:
        return
    broker.use_config(broker.config)
    ids = {producer_id for log in broker.logs.logs.values() for producer_id in log.producers.producers}
    ids |= {transaction.producer_id for transaction in broker.transactions.all()}
    cluster.skip_producer_ids(max(ids, default=-1))
