"""The marker of a clean stop, `.kafka_cleanshutdown`: every log of the data directory was synced and closed.

Kafka up to 3.6 writes an empty file, later ones the first line below; milepost adds a field that Kafka ignores:

    {"version":0,"brokerEpoch":-1,
     "milepost":{"page_visits-0":[1250,91873], ...}}     log end offset and size of the last segment's `.log`

The marker is written last, when everything else is synced, and removed (and the removal synced) before anything else
is done at the next start. With it, loading reads no log. Since that is a lot of trust, ours says what it stands for:
a directory that was copied over, or a marker that came back after a crash, does not agree with its logs, and such a
log is recovered as if there were no marker. A marker that Kafka wrote says nothing about the logs and is taken at its
word. One that is neither empty nor JSON was written by nobody: it counts as absent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from milepost.files import Disk, read_file, replace_file
from milepost.frozen_dataclass import frozen_dataclass
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.log")

FILE_NAME = ".kafka_cleanshutdown"
VERSION = 0
NO_BROKER_EPOCH = -1


@frozen_dataclass
class CleanShutdown:
    """What a marker says; `partitions` is None when Kafka wrote it."""

    broker_epoch: int = NO_BROKER_EPOCH
    partitions: Mapping[str, tuple[int, int]] | None = None

    def agrees(self, tp: TopicPartition, log_end_offset: int | None, last_segment_size: int) -> bool:
        if self.partitions is None:
            return True
        said = self.partitions.get(str(tp))
        return said is not None and said[1] == last_segment_size and log_end_offset in (None, said[0])


def read_clean_shutdown(disk: Disk, path: str) -> CleanShutdown | None:
    """The marker, or None when there is none that can be believed."""
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return None
    if not data.strip():
        return CleanShutdown()
    try:
        return parse_clean_shutdown(data)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        logger.warning("%s: %d bytes that are no marker of a clean stop (%s); the logs are recovered", path, len(data), error)
        return None


def parse_clean_shutdown(data: bytes) -> CleanShutdown:
    content = json.loads(data)
    broker_epoch = int(content.get("brokerEpoch", NO_BROKER_EPOCH))
    if "milepost" not in content:
        return CleanShutdown(broker_epoch)
    return CleanShutdown(broker_epoch, {name: (int(end), int(size)) for name, (end, size) in content["milepost"].items()})


def write_clean_shutdown(disk: Disk, path: str, marker: CleanShutdown) -> None:
    content: dict[str, object] = {"version": VERSION, "brokerEpoch": marker.broker_epoch}
    if marker.partitions is not None:
        content["milepost"] = dict(sorted(marker.partitions.items()))
    replace_file(disk, path, json.dumps(content, separators=(",", ":")).encode())
