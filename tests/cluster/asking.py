"""What brokers of a cluster say when they are asked, what ZooKeeper says, and waiting until they say so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import AdminClient

from tests import waiting
from tests.waiting import PROCESS_PATIENCE

if TYPE_CHECKING:
    from kazoo.client import KazooClient


def until(is_so: Callable[[], object], what: str, seconds: float = PROCESS_PATIENCE) -> None:
    waiting.until(is_so, what, seconds, pause=0.1)


def metadata(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=PROCESS_PATIENCE)


def partitions_of(bootstrap: str, topic: str) -> dict[int, Any]:
    """As soon as the broker that is asked has heard of the topic; one that has just been started may not have."""
    told: list[Any] = []
    until(lambda: told.append(metadata(bootstrap)) or topic in told[-1].topics, f"{topic} is known")
    found: dict[int, Any] = told[-1].topics[topic].partitions
    return found


def leaders(bootstrap: str, topic: str) -> dict[int, int]:
    return {number: part.leader for number, part in partitions_of(bootstrap, topic).items()}


def in_sync(bootstrap: str, topic: str) -> dict[int, list[int]]:
    return {number: sorted(part.isrs) for number, part in partitions_of(bootstrap, topic).items()}


@contextmanager
def zookeeper_client(zookeeper: str) -> Iterator[KazooClient]:
    # Not at the top: where kazoo is missing the tests are skipped by the fixture of the server.
    from kazoo.client import KazooClient

    client = KazooClient(zookeeper, timeout=60)
    try:
        client.start(PROCESS_PATIENCE)
        yield client
    finally:
        client.stop()
        client.close()


def node(client: KazooClient, path: str) -> Any:
    """The content of a znode, or None."""
    from kazoo.exceptions import NoNodeError

    try:
        return json.loads(client.retry(client.get, path)[0])
    except NoNodeError:
        return None


def assigned(client: KazooClient, topic: str) -> dict[int, list[int]]:
    """Partition -> its replicas, in the order of their numbers."""
    known = node(client, f"/brokers/topics/{topic}") or {"partitions": {}}
    return {int(number): sorted(replicas) for number, replicas in known["partitions"].items()}


def written_in_sync(client: KazooClient, topic: str) -> dict[int, list[int]]:
    """As the leaders had it written: brokers hear of it a moment later, and one that was asleep has not heard anything."""
    states = {number: node(client, f"/brokers/topics/{topic}/partitions/{number}/state") for number in assigned(client, topic)}
    return {number: sorted(state["isr"]) for number, state in states.items() if state is not None}


def end_session(client: KazooClient, broker_id: int) -> None:
    """Of a broker that was killed: its ephemeral nodes go now, and not when ZooKeeper has not heard of it for long enough."""
    mine = client.exists(f"/brokers/ids/{broker_id}")
    if mine is None:
        return
    parts = client.exists("/controller")
    transaction = client.transaction()
    transaction.delete(f"/brokers/ids/{broker_id}")
    if parts is not None and parts.ephemeralOwner == mine.ephemeralOwner:
        transaction.delete("/controller")
    transaction.commit()
