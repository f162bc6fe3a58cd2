"""The features of this cluster that have levels, and how a level is moved (KIP-584).

    feature              levels   at first   what the level means
    group.version        0 to 1   1          1: the consumer protocol of groups (KIP-848) is served
    transaction.version  0 to 2   2          1: flexible records in `__transaction_state`; 2: every transaction has an epoch of
                                             its own and partitions are added on the way (KIP-890, part 2)

Clients read the levels in ApiVersions. They are *finalized*: the cluster stores them, with an epoch that every change
raises, since a client keeps the levels with the highest epoch. A feature at level 0 is not listed as finalized.

A level goes up with the upgrade type 1, and down with 2 (safe) or 3 (unsafe), which are the same for these features:
nothing that is stored is lost on the way down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import MilepostError
from milepost.frozen_dataclass import frozen_dataclass

if TYPE_CHECKING:
    from milepost.cluster.view import ClusterView

GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class InvalidUpdateVersion(MilepostError):
    code = 95
    exit_code = 4


@frozen_dataclass
class Feature:
    name: str
    lowest: int
    highest: int
    first: int
    """The level of a new cluster."""


FEATURES = {feature.name: feature for feature in (Feature(GROUP_VERSION, 0, 1, 1), Feature(TRANSACTION_VERSION, 0, 2, 2))}


def level_of(cluster: ClusterView, name: str) -> int:
    return cluster.feature_levels.get(name, FEATURES[name].first)


def finalized(cluster: ClusterView) -> dict[str, int]:
    """The levels in force, of those features that have one."""
    levels = {name: level_of(cluster, name) for name in FEATURES}
    return {name: level for name, level in levels.items() if level > 0}


def fault_of(cluster: ClusterView, name: str, level: int, upgrade_type: int) -> str | None:
    """Why a feature cannot go to a level."""
    feature = FEATURES.get(name)
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"upgrade type {upgrade_type} is none of upgrade {UPGRADE}, downgrade {SAFE_DOWNGRADE}, unsafe downgrade {UNSAFE_DOWNGRADE}"
    if feature is None:
        return f"there is no feature {name[:60]!r} here"
    if not feature.lowest <= level <= feature.highest:
        return f"{name} has the levels {feature.lowest} to {feature.highest}, and {level} is none of them"
    current = level_of(cluster, name)
    if level < current and upgrade_type == UPGRADE:
        return f"{name} is at level {current}: to go down to {level}, ask for a downgrade"
    if level > current and upgrade_type != UPGRADE:
        return f"{name} is at level {current}: a downgrade does not lead up to {level}"
    return None
