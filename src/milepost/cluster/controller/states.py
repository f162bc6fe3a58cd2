"""The states of partitions and replicas, and which may follow which: Kafka's two state machines as tables.

A change that the table does not have is a mistake of the controller's, is logged, and is not made: the partition stays as it was.
"""

from __future__ import annotations

import enum


class PartitionStatus(enum.Enum):
    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"  # has replicas, no leader yet
    ONLINE = "OnlinePartition"  # has a leader
    OFFLINE = "OfflinePartition"  # had a leader, and lost it


class ReplicaStatus(enum.Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"  # is being made; it may become a follower only
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"  # its broker is down
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


P, R = PartitionStatus, ReplicaStatus

PARTITION_BEFORE = {
    P.NEW: {P.NON_EXISTENT},
    P.ONLINE: {P.NEW, P.ONLINE, P.OFFLINE},
    P.OFFLINE: {P.NEW, P.ONLINE, P.OFFLINE},
    P.NON_EXISTENT: {P.OFFLINE},
}
"""From which states a partition may come into each."""

REPLICA_BEFORE = {
    R.NEW: {R.NON_EXISTENT},
    R.ONLINE: {R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE},
    R.OFFLINE: {R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE},
    R.DELETION_STARTED: {R.OFFLINE},
    R.DELETION_SUCCESSFUL: {R.DELETION_STARTED},
    R.DELETION_INELIGIBLE: {R.OFFLINE, R.DELETION_STARTED},
    R.NON_EXISTENT: {R.DELETION_SUCCESSFUL},
}
