"""Topics that are asked for, written into ZooKeeper: the controller's watches do the rest.

create    /config/topics/T, then /brokers/topics/T with the replicas of each partition
grow      /brokers/topics/T with more partitions, over the version that was read
delete    /admin/delete_topics/T
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from milepost.cluster.protocol_versions import ProtocolVersions
from milepost.cluster.zookeeper import znodes
from milepost.cluster.zookeeper.operations import Create, Error, Exists, Get, SetData
from milepost.cluster.zookeeper.session import TRIES, Steps, retried
from milepost.cluster.zookeeper.znodes import Assignment, TopicNode
from milepost.protocol.error_codes import ErrorCode


def create_topic(
    name: str,
    replicas: Mapping[int, tuple[int, ...]],
    configs: Mapping[str, str],
    topic_id: str,
    versions: ProtocolVersions,
) -> Steps[int]:
    """An error code: 36 when there is such a topic already."""
    (there,) = yield [Exists(znodes.topic_path(name))]
    if there.ok:
        return ErrorCode.TOPIC_ALREADY_EXISTS
    path, data = znodes.config_path("topics", name), znodes.config(configs)
    (made,) = yield from retried([Create(path, data)])
    if made.error is Error.NODE_EXISTS:  # of a deleted topic, or of another request that creates the same now
        (made,) = yield from retried([SetData(path, data)])
    if not made.ok:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    node = TopicNode(
        {number: Assignment(each) for number, each in replicas.items()}, topic_id if versions.has_topic_ids else None
    )
    (made,) = yield from retried([Create(znodes.topic_path(name), znodes.topic(node, versions.topic_znode))])
    if made.error is Error.NODE_EXISTS:
        (found,) = yield [Get(znodes.topic_path(name))]
        known = znodes.parse_topic(found.data) if found.ok else None
        # Only an id tells whose it is: without ids it may be another request's topic with the same replicas.
        is_ours = known is not None and known.topic_id is not None and known.topic_id == node.topic_id
        return ErrorCode.NONE if is_ours else ErrorCode.TOPIC_ALREADY_EXISTS
    return ErrorCode.NONE if made.ok else ErrorCode.UNKNOWN_SERVER_ERROR


def delete_topic(name: str) -> Steps[int]:
    (there,) = yield [Exists(znodes.topic_path(name))]
    if there.stat is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if there.error is Error.NO_NODE else ErrorCode.UNKNOWN_SERVER_ERROR
    for _ in range(TRIES):
        (made,) = yield [Create(znodes.delete_topic_path(name))]
        if made.error is not Error.CONNECTION_LOSS:
            break
        (now,) = yield [Exists(znodes.topic_path(name))]
        # Marked and deleted already: a topic that has its name now is another one.
        if now.error is Error.NO_NODE or (now.stat is not None and now.stat.czxid != there.stat.czxid):
            return ErrorCode.NONE
    return ErrorCode.NONE if made.ok or made.error is Error.NODE_EXISTS else ErrorCode.UNKNOWN_SERVER_ERROR


def grow_topic(
    name: str, more: Callable[[Mapping[int, Assignment]], Mapping[int, tuple[int, ...]]], versions: ProtocolVersions
) -> Steps[int]:
    """`more` is given the partitions there are and says which are to be added: none when they are there."""
    while True:
        (found,) = yield [Get(znodes.topic_path(name))]
        node = znodes.parse_topic(found.data) if found.ok else None
        if node is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if any(each.is_reassigned for each in node.partitions.values()):
            return ErrorCode.REASSIGNMENT_IN_PROGRESS
        grown = {**node.partitions, **{number: Assignment(each) for number, each in more(node.partitions).items()}}
        data = znodes.topic(TopicNode(grown, node.topic_id), versions.topic_znode)
        (written,) = yield from retried([SetData(znodes.topic_path(name), data, found.version)])
        if written.ok:
            return ErrorCode.NONE
        if written.error is not Error.BAD_VERSION:
            return ErrorCode.UNKNOWN_SERVER_ERROR
