"""`meta.properties`: which cluster and which broker a data directory belongs to.

    key            version 0 (ZooKeeper)     version 1 (KRaft)      meaning
    version        0; missing means 0        1
    cluster.id     optional                  required               the cluster
    broker.id      optional                  -                      the broker
    node.id        -                         required               the broker
    directory.id   optional                  optional               this directory, 22 characters of base64

Java properties text (see config.properties_file). Kafka writes a bare `#`, a `#` with the date, then the keys in no
particular order. Unknown keys are left out when the file is written again.
"""

from __future__ import annotations

import re
import time

from milepost.clock import Clock
from milepost.config.properties_file import parse_properties
from milepost.errors import InvalidConfiguration, KafkaStorage
from milepost.files import Disk, read_file, replace_file
from milepost.frozen_dataclass import frozen_dataclass

FILE_NAME = "meta.properties"
INTEGER = re.compile(r"-?[0-9]{1,10}", re.ASCII)


@frozen_dataclass
class MetaProperties:
    version: int = 1
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None

    @property
    def broker_id(self) -> int | None:
        """What version 0 calls the node id."""
        return self.node_id

    def ensure_same(self, where: str, cluster_id: str | None = None, node_id: int | None = None) -> None:
        """Refuse a directory of another cluster or broker; what is not known on either side is not compared."""
        for name, found, expected in (("cluster", self.cluster_id, cluster_id), ("broker", self.node_id, node_id)):
            if found is not None and expected is not None and found != expected:
                raise KafkaStorage(
                    f"{where}: the directory belongs to {name} {found}, expected {expected}; "
                    f"use another data directory, or the configuration of {name} {found}"
                )


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    try:
        data = read_file(disk, path)
    except FileNotFoundError:
        return None
    try:
        properties = {name: entry.value for name, entry in parse_properties(data.decode("latin-1"), path).items()}
    except InvalidConfiguration as damage:
        raise KafkaStorage(str(damage)) from damage
    version = _integer(properties, "version", path)
    if version not in (None, 0, 1):
        raise KafkaStorage(f"{path}: version {version}, only 0 and 1 are known; a newer Kafka wrote this directory")
    node_id = _integer(properties, "node.id" if version else "broker.id", path)
    meta = MetaProperties(version or 0, properties.get("cluster.id"), node_id, properties.get("directory.id"))
    if meta.version == 1 and (meta.cluster_id is None or meta.node_id is None):
        missing = "cluster.id" if meta.cluster_id is None else "node.id"
        raise KafkaStorage(f"{path}: version 1 without {missing}; restore the file from a backup")
    return meta


def write_meta_properties(disk: Disk, path: str, meta: MetaProperties, clock: Clock) -> None:
    values = {
        "version": meta.version,
        "cluster.id": meta.cluster_id,
        "node.id" if meta.version else "broker.id": meta.node_id,
        "directory.id": meta.directory_id,
    }
    lines = ["#", f"#{java_date(clock.now_ms())}"]
    lines += [f"{key}={_escape(str(value))}" for key, value in values.items() if value is not None]
    replace_file(disk, path, "".join(f"{line}\n" for line in lines).encode("latin-1"))


def java_date(now_ms: int) -> str:
    """As Java prints a date, in UTC: `Sun Nov 15 09:36:27 UTC 2026`."""
    moment = time.gmtime(now_ms // 1000)
    weekday, month = time.asctime(moment).split()[:2]
    return f"{weekday} {month} {time.strftime('%d %H:%M:%S UTC %Y', moment)}"


def _escape(text: str) -> str:
    escaped = re.sub(r"[\\=:#!]", r"\\\g<0>", text)
    escaped = re.sub(r"[^\x20-\x7e]", lambda match: f"\\u{ord(match.group()):04x}", escaped)
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _integer(properties: dict[str, str], key: str, path: str) -> int | None:
    text = properties.get(key)
    if text is None:
        return None
    if not INTEGER.fullmatch(text.strip()):
        raise KafkaStorage(f"{path}: {key}={text[:40]!r} is not a number; restore the file from a backup")
    return int(text)
