"""What `inter.broker.protocol.version` decides: how brokers of one cluster talk, and what they write into ZooKeeper.

Brokers do not negotiate the requests of their controller or the fetches of their followers: the setting alone says which version goes
out, so that a cluster can be upgraded broker by broker and the setting raised at the end.

| since | LeaderAndIsr | UpdateMetadata | StopReplica | Fetch | what else |
|---|--:|--:|--:|--:|---|
| 2.3 | 2 | 5 | 1 | 11 | broker epochs; the leader writes its ISR into ZooKeeper itself |
| 2.4 | 4 | 6 | 2 | 11 | replicas that are added and removed (topic znode 2) |
| 2.6 | 4 | 6 | 3 | 11 | deletion is said for each partition |
| 2.7 | 4 | 6 | 3 | 12 | AlterPartition; truncation by Fetch; features (broker znode 5) |
| 2.8 | 5 | 7 | 3 | 12 | topic ids (topic znode 3) |
| 3.0 | 5 | 7 | 3 | 12 | AllocateProducerIds |
| 3.1 | 5 | 7 | 3 | 13 | |
| 3.2 | 6 | 7 | 3 | 13 | recovery state of a leader |
| 3.4 | 7 | 8 | 4 | 13 | KRaft flag (controller znode 2) |
| 3.5 | 7 | 8 | 4 | 15 | |
| 3.7 | 7 | 8 | 4 | 16 | |
| 3.9 | 7 | 8 | 4 | 17 | |
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.errors import InvalidConfiguration


class ProtocolVersions(NamedTuple):
    since: tuple[int, int]
    leader_and_isr: int
    update_metadata: int
    stop_replica: int
    fetch: int

    @property
    def controlled_shutdown(self) -> int:
        return 3 if self.since >= (2, 4) else 2

    @property
    def write_txn_markers(self) -> int:
        return 1 if self.since >= (2, 8) else 0

    @property
    def offset_for_leader_epoch(self) -> int:
        return 4 if self.since >= (2, 8) else 3

    @property
    def alter_partition(self) -> int:
        """Kafka asks the controller which versions it knows; this one every controller of that protocol knows. Ids of topics since 2,
        broker epochs since 3."""
        newest = ((3, 5), 3), ((3, 4), 2), ((3, 2), 1)
        return next((version for since, version in newest if self.since >= since), 0)

    @property
    def list_offsets(self) -> int:
        """Which a follower asks for when its position is out of range."""
        newest = ((3, 9), 9), ((3, 5), 8), ((3, 0), 7), ((2, 8), 6)
        return next((version for since, version in newest if self.since >= since), 5)

    @property
    def topic_znode(self) -> int:
        return 3 if self.has_topic_ids else 2 if self.since >= (2, 4) else 1

    @property
    def has_topic_ids(self) -> bool:
        return self.since >= (2, 8)

    @property
    def has_alter_partition(self) -> bool:
        return self.since >= (2, 7)

    @property
    def truncates_on_fetch(self) -> bool:
        return self.since >= (2, 7)

    @property
    def has_features(self) -> bool:
        return self.since >= (2, 7)

    @property
    def allocates_producer_ids(self) -> bool:
        return self.since >= (3, 0)

    @property
    def knows_kraft(self) -> bool:
        return self.since >= (3, 4)


VERSIONS = (
    ProtocolVersions((2, 3), 2, 5, 1, 11),
    ProtocolVersions((2, 4), 4, 6, 2, 11),
    ProtocolVersions((2, 6), 4, 6, 3, 11),
    ProtocolVersions((2, 7), 4, 6, 3, 12),
    ProtocolVersions((2, 8), 5, 7, 3, 12),
    ProtocolVersions((3, 0), 5, 7, 3, 12),
    ProtocolVersions((3, 1), 5, 7, 3, 13),
    ProtocolVersions((3, 2), 6, 7, 3, 13),
    ProtocolVersions((3, 4), 7, 8, 4, 13),
    ProtocolVersions((3, 5), 7, 8, 4, 15),
    ProtocolVersions((3, 7), 7, 8, 4, 16),
    ProtocolVersions((3, 9), 7, 8, 4, 17),
)
LATEST = VERSIONS[-1]


def protocol_versions(text: str) -> ProtocolVersions:
    """Of a setting such as `3.9`, `2.4-IV1` or `3.9.1`."""
    try:
        major, minor = (int(part) for part in text.partition("-")[0].split(".")[:2])
    except ValueError:
        raise InvalidConfiguration(f"inter.broker.protocol.version is {text!r}: it should look like 3.9 or 2.4-IV1") from None
    if not (2, 3) <= (major, minor) <= (3, 9):
        raise InvalidConfiguration(
            f"inter.broker.protocol.version is {text}: from 2.3 to 3.9 can be spoken (4.0 and later have no ZooKeeper)"
        )
    return [versions for versions in VERSIONS if versions.since <= (major, minor)][-1]
