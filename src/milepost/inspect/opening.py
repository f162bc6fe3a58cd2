"""The log of a directory that a person named, opened to be looked at: nothing is locked, nothing is written."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from milepost.codec.text import counted
from milepost.config import LogConfig
from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.inspect.paths import PathKind, is_partition_name, look_at, partitions_in, segment_bases
from milepost.log.log import Log
from milepost.log.open import open_log
from milepost.segment import names


def open_partition(path: str, settings: Mapping[str, object] | None = None) -> Log:
    """The log in a partition directory. A data directory or a file is refused, with a hint at what to name instead.

    The topic's settings are not stored beside its segments. They matter to a reader in one place: an index that has to be rebuilt
    in memory (after a crash, or beside a running broker) gets its entries by `index.interval.bytes`.
    """
    disk = Disk()
    config = LogConfig.parse(settings)
    target = look_at(disk, path)
    if target.kind is PathKind.DATA:
        partitions = partitions_in(disk, target.path)
        hint = f"name a partition in it, such as {target.path}/{partitions[0]}" if partitions else "there is no partition in it"
        raise KafkaStorage(f"{target.path}: a data directory with {counted(len(partitions), 'partition')}; {hint}")
    if target.kind is PathKind.FILE:
        raise KafkaStorage(f"{target.path}: a file; name the partition directory it is in")
    if not segment_bases(disk, target.path) and not is_partition_name(posixpath.basename(target.path)):
        raise KafkaStorage(f"{target.path}: no segments in it (such as {names.file_name(0, names.LOG)}); name a partition directory")
    return open_log(target.path, mode="r", config=config)
