"""The demonstration that `make demo` runs: the topic `page_visits` with five partitions, written, shown and looked into.

A thousand visits, keyed by visitor, go through Kafka's partitioner into five partition directories with small segments, so that
there is something to see: segments, sparse indexes, and two lookups, one by offset and one by time, told step by step.

The directory `milepost-demo` is made anew each time. If it holds anything that this demonstration did not write, it is left alone.
"""

from __future__ import annotations

import stat
import sys

from milepost.cli.output import Sentence, quiet_streams
from milepost.cli.sections import print_sections
from milepost.errors import KafkaStorage, MilepostError
from milepost.files import Disk
from milepost.inspect.explain import explain
from milepost.inspect.explain_text import INDENT, Section, explanation_as_text, wrapped
from milepost.inspect.times import MILLISECONDS_UNIT
from milepost.log.open import open_log
from milepost.log.partition_name import parse_directory_name
from milepost.record.partitioner import partition_for
from milepost.record.records import Record
from milepost.segment import names

DIRECTORY = "milepost-demo"
TOPIC, PARTITIONS = "page_visits", 5
VISITS, BATCH = 1000, 3
FIRST_VISIT = 1_526_384_700_000  # 2018-05-15, the day of the articles' example
ASKED_TIME = 1_526_384_718_288
CONFIG = {"segment.bytes": 4096, "index.interval.bytes": 256, "segment.index.bytes": 4096}
PAGES = ("/", "/docs", "/download", "/community", "/blog")
TOP_FILES = {
    ".kafka_cleanshutdown",
    ".lock",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}
ENTRY_SIZES = {names.INDEX: 8, names.TIME_INDEX: 12}


def visits() -> dict[int, list[Record]]:
    """The records of each partition, in the order of time. The n-th visitor comes back every 89 visits or so, with no dice."""
    found: dict[int, list[Record]] = {partition: [] for partition in range(PARTITIONS)}
    for number in range(VISITS):
        time = FIRST_VISIT + 37 * number + number * number % 29
        address = f"192.168.2.{number * 53 % 89}"
        line = f"{time},{PAGES[number * number % len(PAGES)]},{address}"
        partition = partition_for(address.encode(), PARTITIONS)
        found[partition].append(Record(0, time, address.encode(), line.encode()))
    return found


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
            raise KafkaStorage(f"{directory}: holds {name}, which this demonstration did not write; move the directory away first")
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
        return parse_directory_name(name)[0].topic == TOPIC
    except KafkaStorage:
        return False


# What there is to see.


def tree(directory: str, disk: Disk) -> list[str]:
    """The partition directories with their sizes, and every file of the first one."""
    lines = [f"{INDENT}{directory}/"]
    for partition in range(PARTITIONS):
        path = f"{directory}/{TOPIC}-{partition}"
        files = sorted(disk.listdir(path))
        size = sum(disk.stat(f"{path}/{name}").st_size for name in files)
        segments = sum(name.endswith(names.LOG) for name in files)
        with open_log(path) as log:
            held = f"offsets 0 to {log.end_offset - 1}"
        lines.append(f"{INDENT * 2}{TOPIC}-{partition}/{held:>22} in {segments} segments, {len(files)} files, {size:,} bytes")
        if partition == 0:
            lines += [f"{INDENT * 3}{name:<36}{disk.stat(f'{path}/{name}').st_size:>8,}{_about(path, name, disk)}" for name in files]
    return lines


def _about(path: str, name: str, disk: Disk) -> str:
    for suffix, entry_size in ENTRY_SIZES.items():
        if name.endswith(suffix):
            entries = disk.stat(f"{path}/{name}").st_size // entry_size
            return f"   {entries} entries of {entry_size} bytes"
    if name.endswith(names.LOG):
        return "   record batches"
    return "   producers and their sequences" if name.endswith(names.SNAPSHOT) else "   who led since which offset"


def next_steps(directory: str) -> list[str]:
    program, partition = ".venv/bin/milepost", f"{directory}/{TOPIC}-0"
    commands = [
        f"{program} explain {partition} --offset 42",
        f"{program} explain {partition} --time 2018-05-15T11:45:00Z --json",
        f"{program} dump {partition}/{names.file_name(0, names.INDEX)}",
        f"{program} dump {partition} --print-data-log",
        f"{program} verify {directory}",
        f"{program} tune {partition}",
    ]
    return [f"{INDENT}{command}" for command in commands]


def demonstrate(directory: str = DIRECTORY) -> None:
    disk = Disk()
    remove_previous(directory, disk)
    write_topic(directory, disk)
    first = f"{directory}/{TOPIC}-0"
    with open_log(first) as log:
        by_offset = explain(log, offset=log.end_offset * 2 // 3)
        by_time = explain(log, time=ASKED_TIME, unit=MILLISECONDS_UNIT)
        assert by_time.answer is not None, "the visits go on after the time that is asked for"
        record = next(log.records(start=by_time.answer.offset))
    print_sections(
        [
            Section(
                f"The topic {TOPIC} with {PARTITIONS} partitions, in ./{directory}",
                (
                    *wrapped(
                        f"{VISITS} visits, keyed by visitor: the hash of the key chooses the partition, as in Java's producer, "
                        f"so all visits of one visitor stay in order. segment.bytes is {CONFIG['segment.bytes']} and "
                        f"index.interval.bytes {CONFIG['index.interval.bytes']}, so that even a small log has many segments and entries."
                    ),
                    "",
                    *tree(directory, disk),
                ),
            ),
            Section("A LOOKUP BY OFFSET", ()),
            *explanation_as_text(by_offset),
            Section("A LOOKUP BY TIME", ()),
            *explanation_as_text(by_time),
            Section(
                "The record",
                (f"{INDENT}offset {record.offset}   key {(record.key or b'').decode()}   value {(record.value or b'').decode()}",),
            ),
            Section("What to try next", tuple(next_steps(directory))),
        ]
    )


def main() -> int:
    try:
        demonstrate()
    except MilepostError as error:
        Sentence(str(error), error.exit_code).show()
        return error.exit_code
    except BrokenPipeError:
        quiet_streams()
    return 0


if __name__ == "__main__":
    sys.exit(main())
