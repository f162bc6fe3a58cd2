"""How a broker joins: the nodes every cluster has, the cluster's id and secret, and the broker's own ephemeral znode.

The creation zxid of /brokers/ids/N is the broker's epoch. Kafka makes the node empty and fills it in the same multi, so that its data
version is 1; we do as it does. If the node is there already, it is a broker with our id, or our own session of a moment ago, which
ZooKeeper ends when its timeout has passed: a broker that registers tries again until then. A node of this very session is made anew.
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Delete, Error, Exists, Get, Multi, SetData
from milepost.cluster.zookeeper.session import Steps, retried
from milepost.errors import InvalidConfiguration

LEAST_SECRET_BYTES = 16


class BrokerIdTaken(InvalidConfiguration):
    """Another broker with this id is registered."""


def make_nodes(versions: ProtocolVersions) -> Steps[None]:
    """The nodes that every cluster has, made by the first broker. All in one turn: ZooKeeper writes each of them to its disk."""
    nodes: dict[str, bytes] = {}
    for path in znodes.MADE_AT_START:
        parent = path.rpartition("/")[0]
        if parent:
            nodes.setdefault(parent, b"")
        nodes[path] = b""
    if versions.has_features:
        nodes[znodes.FEATURE] = znodes.feature()
    found = yield [Exists(path) for path in nodes]
    missing = [Create(path, nodes[path]) for path, there in zip(nodes, found, strict=True) if not there.ok]
    if missing:
        made = yield from retried(missing)
        if made[0].error is Error.NO_NODE:  # the node above it is the chroot itself
            raise InvalidConfiguration(
                f"ZooKeeper has no place for {missing[0].path}: the chroot of zookeeper.connect is not there and could not be made,"
                " as the log says; make it by hand"
            )


def make_path(path: str, data: bytes = b"") -> Steps[None]:
    """A node, and those above it where they are missing."""
    (made,) = yield from retried([Create(path, data)])
    if made.error is Error.NO_NODE:
        parent = path.rpartition("/")[0]
        yield from make_path(parent)
        yield from retried([Create(path, data)])


def cluster_id(proposed: str) -> Steps[str]:
    """The cluster's id: what the first broker proposed."""
    (found,) = yield [Get(znodes.CLUSTER_ID)]
    if not found.ok:
        yield from make_path(znodes.CLUSTER_ID, znodes.cluster_id(proposed))
        (found,) = yield [Get(znodes.CLUSTER_ID)]
    known = znodes.parse_cluster_id(found.data) if found.ok else None
    if known is None:
        raise InvalidConfiguration(f"{znodes.CLUSTER_ID} holds {found.data[:80]!r}, which is no cluster id")
    return known


def cluster_secret(new_secret: Callable[[], bytes]) -> Steps[bytes]:
    """What brokers prove themselves with (`replica/broker_proof`): what the first one made."""
    (found,) = yield [Get(znodes.SECRET)]
    if not found.ok:
        yield from make_path(znodes.SECRET, znodes.secret(new_secret()))
        (found,) = yield [Get(znodes.SECRET)]
    known = znodes.parse_secret(found.data) if found.ok else None
    if known is None or len(known) < LEAST_SECRET_BYTES:
        raise InvalidConfiguration(
            f"{znodes.SECRET} holds no secret of at least {LEAST_SECRET_BYTES} bytes: delete it, and the next broker makes another"
        )
    return known


def register(broker_id: int, node: znodes.BrokerNode, session_id: int, now_ms: int, versions: ProtocolVersions) -> Steps[int]:
    """Make the broker's znode; its epoch. Raises BrokerIdTaken if another session has it."""
    path = znodes.broker_path(broker_id)
    data = znodes.broker(node, now_ms, has_features=versions.has_features)
    (made,) = yield [Multi((Create(path, ephemeral=True), SetData(path, data, 0)))]
    if not made.ok:
        (there,) = yield [Exists(path)]
        if there.ok and there.stat is not None:
            if there.stat.ephemeral_owner != session_id:
                raise BrokerIdTaken(f"a broker with id {broker_id} is registered already: give this one another broker.id")
            yield [Delete(path)]
        (made,) = yield [Multi((Create(path, ephemeral=True), SetData(path, data, 0)))]
        if not made.ok:
            raise BrokerIdTaken(f"broker {broker_id} cannot be registered at {path}: {made.error.name}")
    return made.results[1].stat.czxid if made.results[1].stat is not None else 0
