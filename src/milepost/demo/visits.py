"""The visits, and the directory they are in."""

from __future__ import annotations

import stat

from milepost.errors import KafkaStorage
from milepost.files import Disk
from milepost.log.directory.partition_directory import parse_directory_name
from milepost.log.open import open_log
from milepost.record.partitioner import partition_for
from milepost.record.records import Record

TOPIC, PARTITIONS = "page_visits", 5
VISITS, BATCH = 1000, 3
MORE_VISITS = 500
FIRST_VISIT = 1_526_384_700_000  # 2018-05-15, the day of the articles' example
CONFIG = {"segment.bytes": 4096, "index.interval.bytes": 256, "segment.index.bytes": 4096}
PAGES = ("/", "/docs", "/download", "/community", "/blog")
SESSIONS = "sessions"  # what the Spark pipeline writes back
TOPICS = (TOPIC, SESSIONS, "__consumer_offsets")
TOP_FILES = {
    ".kafka_cleanshutdown",
    ".lock",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
    "milepost.cluster.json",
    "milepost.sink.json",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}


def visit(number: int) -> Record:
    """The n-th visit. A visitor comes back every 89 visits or so, with no dice."""
    time = FIRST_VISIT + 37 * number + number * number % 29
    address = f"192.168.2.{number * 53 % 89}"
    return Record(0, time, address.encode(), f"{time},{PAGES[number * number % len(PAGES)]},{address}".encode())


def visits() -> dict[int, list[Record]]:
    """The records of each partition that are written first, in the order of time."""
    found: dict[int, list[Record]] = {partition: [] for partition in range(PARTITIONS)}
    for record in map(visit, range(VISITS)):
        found[partition_for(record.key or b"", PARTITIONS)].append(record)
    return found


def more_visits() -> list[Record]:
    """Those that come later, through a broker."""
    return [visit(number) for number in range(VISITS, VISITS + MORE_VISITS)]


def write_topic(directory: str, disk: Disk) -> None:
    disk.mkdir(directory)
    for partition, records in visits().items():
        with open_log(f"{directory}/{TOPIC}-{partition}", mode="a", config=CONFIG) as log:
            for start in range(0, len(records), BATCH):
                log.append(records[start : start + BATCH])


def remove_previous(directory: str, disk: Disk) -> None:
    """Take away what an earlier run wrote, or refuse to touch anything."""
    if not disk.exists(directory):
        return
    for name in disk.listdir(directory):
        if name not in TOP_FILES and not _is_ours(name):
            raise KafkaStorage(
                f"{directory}: holds {name}, which this demonstration did not write; move the directory away first"
            )
    for name in disk.listdir(directory):
        path = f"{directory}/{name}"
        if stat.S_ISDIR(disk.stat(path).st_mode):
            for file in disk.listdir(path):
                disk.unlink(f"{path}/{file}")
            disk.rmdir(path)
        else:
            disk.unlink(path)
    disk.rmdir(directory)


def _is_ours(name: str) -> bool:
    try:
        return parse_directory_name(name)[0].topic in TOPICS
    except KafkaStorage:
        return False
