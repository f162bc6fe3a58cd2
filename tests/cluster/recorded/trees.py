"""Two trees of znodes compared, node by node and field by field.

Everything counts: which nodes there are, the fields of their JSON and their order, versions of data and of children, who is ephemeral.
Left out is what no two clusters share: timestamps, ids of topics and of the cluster, ports, transaction ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.cluster.recorded.brokers import Tree
from tests.golden_wire_fixture import members

OWN = {"timestamp", "topic_id", "id", "port"}
FIELDS = ("version", "cversion", "ephemeral", "numChildren")


def recorded_tree(step: str) -> Tree:
    found: Tree = json.loads(members("znodes")[f"znodes/{step}.json"])["znodes"]
    return found


def differences(expected: Tree, found: Tree) -> Iterator[str]:
    for path in sorted(expected.keys() | found.keys()):
        if path not in found:
            yield f"{path} is missing"
        elif path not in expected:
            yield f"{path} should not be there: {found[path]['data']}"
        else:
            for field in FIELDS:
                if expected[path][field] != found[path][field]:
                    yield f"{path} {field}: {expected[path][field]} expected, {found[path][field]} found"
            wanted, got = content(expected[path]["data"]), content(found[path]["data"])
            if wanted != got:
                yield f"{path}: {wanted} expected, {got} found"


def content(data: str | None) -> Any:
    """(name, value) of each field in order, or the text."""
    if data is None or not data.startswith("{"):
        return data
    return [(name, type(value).__name__ if name in OWN else plain(value)) for name, value in json.loads(data).items()]


def plain(value: Any) -> Any:
    """Without ports. Inside a field the order is that of Kafka's hash tables."""
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [re.sub(r":\d+$", "", each) for each in value]
    return value


def topic_names(tree: Tree) -> dict[str, str]:
    """Topic id -> topic."""
    parsed = {path: json.loads(node["data"]) for path, node in tree.items() if re.fullmatch(r"/brokers/topics/[^/]+", path)}
    return {node["topic_id"]: path.rpartition("/")[2] for path, node in parsed.items() if "topic_id" in node}
