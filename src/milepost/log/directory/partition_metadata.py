"""The `partition.metadata` file of a partition directory: which topic it belongs to, by id.

    version: 0
    topic_id: wMqjoNGDSsigvsDMoKh2dg

The text has no newline at its end. A topic id is a UUID, written as the URL-safe base64 of its 16 bytes without
padding (22 characters); this text is what milepost passes around. Two topics of the same name in turn differ by their
id: a directory of the deleted one must not be served as the new one.

Not promised: that the file is there. Kafka before 2.8 wrote none, and a new log gets it before its first append. One without content,
which is what a power failure leaves that comes before its sync, counts as absent.
"""

from __future__ import annotations

import base64
import binascii
import random
import re
import uuid

from milepost.errors import InconsistentTopicId, KafkaStorage
from milepost.files import Disk, read_file, replace_file, write_file
from milepost.frozen_dataclass import frozen_dataclass

FILE_NAME = "partition.metadata"
VERSION = 0
ZERO_ID = bytes(16)
METADATA_TOPIC_ID = bytes(15) + b"\1"
NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


@frozen_dataclass
class PartitionMetadata:
    topic_id: str
    version: int = VERSION


def read_partition_metadata(disk: Disk, path: str) -> PartitionMetadata | None:
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return None
    if not data.strip(b"\0"):
        return None
    fields: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if not colon or not value[:1].isspace() or ":" in value:
            raise KafkaStorage(f"{path}: the line {line[:60]!r} is not of the form 'name: value'")
        fields[name] = value.strip()
    if not NUMBER.fullmatch(fields.get("version", "")):
        raise KafkaStorage(f"{path}: expected a line 'version: {VERSION}', found version {fields.get('version')!r}")
    topic_id = fields.get("topic_id", "")
    if topic_id_bytes(topic_id, path) == ZERO_ID:
        raise KafkaStorage(f"{path}: the topic id is all zeros, which stands for no topic; remove the file")
    return PartitionMetadata(topic_id, int(fields["version"]))


def write_partition_metadata(disk: Disk, path: str, topic_id: str, sync: bool = True) -> None:
    topic_id_bytes(topic_id, path)
    content = f"version: {VERSION}\ntopic_id: {topic_id}".encode()
    (replace_file if sync else write_file)(disk, path, content)


def ensure_topic_id(disk: Disk, path: str, topic_id: str, sync: bool = True) -> None:
    """Write the topic id where there is none; refuse a directory that has another one. Without `sync`, the caller syncs it."""
    found = read_partition_metadata(disk, path)
    if found is None:
        write_partition_metadata(disk, path, topic_id, sync)
    elif found.topic_id != topic_id:
        raise InconsistentTopicId(
            f"{path}: the directory belongs to topic id {found.topic_id}, expected {topic_id}; "
            "it is left from an earlier topic of this name"
        )


def random_topic_id(rng: random.Random) -> str:
    """A new id: a random UUID (version 4) that is not reserved and does not start with a dash, which tools take for an option."""
    while True:
        value = uuid.UUID(int=rng.getrandbits(128), version=4).bytes
        text = topic_id_text(value)
        if value not in (ZERO_ID, METADATA_TOPIC_ID) and not text.startswith("-"):
            return text


def topic_id_text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def topic_id_bytes(text: str, where: str) -> bytes:
    """The 16 bytes of an id; `where` names the place in the sentence about a text that is none."""
    try:
        value = base64.b64decode(text.encode("ascii", "replace") + b"==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(text) != 22 or len(value) != 16:
        raise KafkaStorage(f"{where}: {text[:40]!r} is not an id of 22 base64 characters")
    return value
