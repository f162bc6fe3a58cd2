"""Checkpoint files: small texts that hold one number per partition, or per leader epoch.

Offset checkpoints (`recovery-point-offset-checkpoint` and three more in a data directory):

    0                              version
    2                              number of entries
    page_visits 0 1250             topic, partition, offset
    page_visits 1 1187

`leader-epoch-checkpoint` in a partition directory has the same shape with two fields, epoch and start offset. Lines
end in "\\n", the last one too. A missing or empty file, or one with nothing but the version, is an empty list.

Everything else that is not exactly this is damage: another version, a wrong count, a wrong number of fields, a number
that does not parse or is negative, a partition twice, NUL bytes, a last line without its end (what a cut file looks
like: `1250` cut to `12` would still be a number). The reader says so with `CorruptCheckpoint`; what to do instead is
its caller's decision, and `keep_aside` keeps the bad bytes for whoever wants to know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from milepost.codec.text import counted
from milepost.errors import CorruptCheckpoint, InvalidArgument
from milepost.files import Disk, read_file, replace_file
from milepost.topic_partition import TopicPartition

VERSION = 0
MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
BAD_SUFFIX = ".bad"
NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)


def read_offset_checkpoint(disk: Disk, path: str) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for line, (topic, partition, offset) in enumerate(read_entries(disk, path, 3), 3):
        key = TopicPartition(topic, parse_number(partition, MAX_INT, path, line))
        if key in offsets:
            raise CorruptCheckpoint(f"{path}, line {line}: a second entry for {key}")
        offsets[key] = parse_number(offset, MAX_LONG, path, line)
    return offsets


def write_offset_checkpoint(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    for key, offset in offsets.items():
        if offset < 0:
            raise InvalidArgument(f"{path}: offset {offset} of {key} is negative and cannot be checkpointed")
    write_entries(disk, path, [f"{key.topic} {key.partition} {offsets[key]}" for key in sorted(offsets)])


def keep_aside(disk: Disk, path: str) -> str:
    """Copy a damaged file to `<name>.bad`, over an earlier copy; the path of the copy."""
    copy = path + BAD_SUFFIX
    replace_file(disk, copy, read_file(disk, path))
    return copy


def write_entries(disk: Disk, path: str, lines: list[str]) -> None:
    replace_file(disk, path, "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode())


def read_entries(disk: Disk, path: str, fields: int) -> list[list[str]]:
    """The fields of every entry; the first entry stands on line 3."""
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return []
    if not data:
        return []
    if b"\0" in data:
        raise CorruptCheckpoint(f"{path}: NUL byte at position {data.index(0)}, expected text")
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path}: byte {data[error.start]:#04x} at position {error.start} is not UTF-8") from None
    version = parse_number(lines[0].strip(), MAX_INT, path, 1)
    if version != VERSION:
        raise CorruptCheckpoint(f"{path}, line 1: version {version}, only version {VERSION} is known")
    if not any(lines[1:]):
        return []
    if lines.pop():
        raise CorruptCheckpoint(f"{path}: the last line, {len(lines) + 1}, has no end; the file was cut")
    count = parse_number(lines[1].strip(), MAX_INT, path, 2)
    entries = [line.split() for line in lines[2:]]
    for line, entry in enumerate(entries, 3):
        if len(entry) != fields:
            raise CorruptCheckpoint(f"{path}, line {line}: {len(entry)} fields, expected {fields}")
    if len(entries) != count:
        raise CorruptCheckpoint(f"{path}: {counted(len(entries), 'entry', 'entries')}, line 2 says {count}")
    return entries


def parse_number(text: str, maximum: int, path: str, line: int) -> int:
    if not NUMBER.fullmatch(text) or int(text) > maximum:
        raise CorruptCheckpoint(f"{path}, line {line}: {text[:40]!r} is not a number from 0 to {maximum}")
    return int(text)
