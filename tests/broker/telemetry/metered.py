"""A broker that serves metrics, and batches that are sent to it."""

from __future__ import annotations

import time

from milepost.protocol.messages import (
    FetchRequest,
)
from tests.broker.scraping import Scrape, scrape
from tests.broker.wire import Wire
from tests.waiting import PATIENCE

ON = {"milepost.metrics.port": "0"}
TOPICS = "kafka_server_brokertopicmetrics"
REQUESTS = "kafka_network_requestmetrics"


def fetch(wire: Wire, offset: int, topic: str = "t", version: int = 11, **fields):
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(min_bytes=1, topics=[FetchRequest.Topic(topic=topic, partitions=[part])], **fields)
    return wire.ask(request, version).responses[0].partitions[0]


def settled(broker, name: str, value: float, **labels: str) -> Scrape:
    """Metrics once one of them is what it should become: an answer is counted when it has left, which its reader may notice first."""
    deadline = time.monotonic() + PATIENCE
    while (found := scrape(broker)).samples.get(name, {}).get(tuple(sorted(labels.items()))) != value:
        assert time.monotonic() < deadline, f"{name} {labels} is {found.samples.get(name)}"
        time.sleep(0.01)
    return found
