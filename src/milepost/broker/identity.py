"""Who a broker is: the cluster and the number that its data directories say, in `meta.properties`.

A directory that was never used gets both on the first start. One that Kafka left behind keeps what it says: with `broker.id` at its
default, 0, the broker takes the number it had there. Directories of two clusters, or of another broker than the configuration says, are
refused: their records would be mixed up.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from milepost.log.directory.data_directory import DataDirectory
from milepost.log.directory.meta_properties import MetaProperties
from milepost.log.directory.partition_metadata import random_topic_id

DEFAULT_NODE = 0


class Identity(NamedTuple):
    cluster_id: str
    node_id: int


def identify(directories: Sequence[DataDirectory], node_id: int, rng: random.Random) -> Identity:
    """Whose directories these are; written down where nothing is said yet."""
    known = [meta for meta in (directory.read_meta() for directory in directories) if meta is not None]
    cluster_id = next((meta.cluster_id for meta in known if meta.cluster_id), None) or random_topic_id(rng)
    if node_id == DEFAULT_NODE:
        node_id = next((meta.node_id for meta in known if meta.node_id is not None), node_id)
    version = known[0].version if known else 0
    for directory in directories:
        directory.ensure_identity(cluster_id, node_id)
        meta = directory.read_meta()
        if meta is None or meta.cluster_id is None:
            directory_id = None if meta is None else meta.directory_id
            directory.write_meta(MetaProperties(version, cluster_id, node_id, directory_id))
    return Identity(cluster_id, node_id)
