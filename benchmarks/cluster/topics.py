"""Topics of a cluster under measurement: made, moved, deleted, and waited for. Through milepost's own client; both understand it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from benchmarks.cluster.clusters import Cluster
from milepost.client import cluster as client
from milepost.client.admin import create_topic, delete_topics
from milepost.cluster.overview import overview
from milepost.protocol.messages import AlterPartitionReassignmentsRequest, ElectLeadersRequest

PATIENCE = 180.0
PREFERRED = 0


def connected(cluster: Cluster) -> client.Cluster:
    return client.Cluster(cluster.bootstrap, timeout=60)


def make_topic(cluster: Cluster, name: str, partitions: int = 1, **configs: str) -> None:
    """With three replicas of each partition, or one on every broker; there when all are in sync."""
    factor = min(3, len(cluster.brokers))
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    with connected(cluster) as asked:
        create_topic(asked, name, partitions=partitions, replication_factor=factor, configs=settings)
    with cluster.reader() as reader:

        def is_there() -> bool:
            parts = [part for part in overview(reader).partitions if part.topic == name]
            return len(parts) == partitions and all(len(part.isr) == factor for part in parts)

        wait_until(is_there, f"{cluster.name}: {name} does not come up", 0.02)
    wait_until(lambda: leader_of(cluster, name) is not None, f"{cluster.name}: nobody is told of {name}", 0.02)


def drop_topic(cluster: Cluster, name: str) -> None:
    """Deleted, and its files gone on every broker: what is still dirty then need not be written."""
    with connected(cluster) as asked:
        delete_topics(asked, [name])

    def is_gone() -> bool:
        return not any(
            entry.name.startswith(f"{name}-") for broker in cluster.brokers.values() for entry in broker.data.iterdir()
        )

    wait_until(is_gone, f"{cluster.name}: {name} stays on disk", 0.05)
    settle()


def leader_of(cluster: Cluster, topic: str, partition: int = 0) -> int | None:
    """As the first broker that runs tells clients."""
    number = next(number for number, broker in cluster.brokers.items() if broker.process is not None)
    info = cluster.ask_metadata(number, [topic])
    found = None if info is None else info.topics.get(topic)
    if info is None or found is None or found.error_code or len(found.partitions) <= partition:
        return None
    leader = found.partitions[partition].leader_id
    return leader if leader in info.nodes else None


def prefer(cluster: Cluster, topic: str, replicas: Sequence[int]) -> None:
    """Another order of the same replicas: the first of them is to lead when it is asked for."""
    part = AlterPartitionReassignmentsRequest.Topic.Partition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=60_000, topics=[AlterPartitionReassignmentsRequest.Topic(name=topic, partitions=[part])]
    )
    with connected(cluster) as asked:
        response = asked.on_controller(lambda connection: connection.ask(request))
    assert not response.error_code and not response.responses[0].partitions[0].error_code, response

    def is_so() -> bool:
        found = next(part for part in cluster.overview().partitions if part.topic == topic)
        return found.replicas == tuple(replicas) and not found.is_reassigned

    wait_until(is_so, f"{cluster.name}: the replicas of {topic} are not {replicas}", 0.02)


def elect_preferred(topic: str) -> ElectLeadersRequest:
    wanted = ElectLeadersRequest.TopicPartition(topic=topic, partitions=[0])
    return ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[wanted], timeout_ms=60_000)


def wait_until(is_so: Callable[[], bool], or_else: str, pause: float = 0.01, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"{or_else} within {seconds:.0f} s")
        time.sleep(pause)


def settle() -> None:
    """Nothing of an earlier run is left to be written back."""
    os.sync()
