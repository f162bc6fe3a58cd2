"""Recorded Kafka traffic for tests, read straight from the archives in `golden_wire/`.

    clients.tar.xz         `clients/<key>-<name>.json`: frames of real clients and brokers (Kafka 3.9.1 and 4.3.0)
    interbroker.tar.xz     the same between three 3.9.1 brokers on ZooKeeper; `ibp-2.3/`: with inter.broker.protocol.version 2.3;
                           `made/`: controller requests of all versions; `order.tsv`, `stand-in.txt`
    clients_order.tar.xz   whole conversations, `clients-order/order-<scenario>.tsv`, without bytes
    znodes.tar.xz          the ZooKeeper tree after each step of a cluster's life

An example has the frames in hex without their size, and what Kafka's own classes read in them as JSON: bytes in base64, uuids in
22 characters, of records only their size. `responseBodyVersion` is there when an answer is not in the version of its request.
"""

from __future__ import annotations

import functools
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ARCHIVES = Path(__file__).parent / "golden_wire"


class WireMessage(NamedTuple):
    """One request or response as it was on the wire, and as Kafka read it."""

    kind: str
    api_key: int
    api_version: int
    body_version: int
    header_version: int
    frame: bytes
    body_start: int
    expected: dict[str, Any]


@functools.cache
def members(archive: str) -> dict[str, bytes]:
    """Path -> content."""
    found = {}
    with tarfile.open(ARCHIVES / f"{archive}.tar.xz") as tar:
        for member in tar:
            if (content := tar.extractfile(member)) is not None:
                found[member.name] = content.read()
    return found


def recordings(archive: str) -> list[str]:
    """The paths of the files of examples; for `parametrize`."""
    return [path for path in members(archive) if path.endswith(".json")]


def api_key(path: str) -> int:
    return int(path.rpartition("/")[2].partition("-")[0])


def examples(archive: str, path: str) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = json.loads(members(archive)[path])
    return parsed


def messages(archive: str, path: str) -> Iterator[WireMessage]:
    """Every request and response that Kafka could read; an acks=0 produce has no response."""
    for example in examples(archive, path):
        for kind in ("request", "response"):
            if example[f"{kind}Hex"] and example[f"{kind}Json"] is not None:
                version = example["apiVersion"]
                yield WireMessage(
                    kind=kind,
                    api_key=api_key(path),
                    api_version=version,
                    body_version=example.get("responseBodyVersion", version) if kind == "response" else version,
                    header_version=example[f"{kind}HeaderVersion"],
                    frame=bytes.fromhex(example[f"{kind}Hex"]),
                    body_start=example[f"{kind}HeaderLength"],
                    expected=example[f"{kind}Json"],
                )


def all_messages() -> Iterator[WireMessage]:
    for archive in ("clients", "interbroker"):
        for path in recordings(archive):
            yield from messages(archive, path)
