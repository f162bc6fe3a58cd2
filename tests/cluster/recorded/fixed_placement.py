"""`python -m tests.cluster.recorded.fixed_placement serve ...`: milepost, but the first partition of a topic goes to the first broker.

Kafka and milepost begin at a random broker. The recorded cluster's internal topics began at broker 1. And a controller that leaves waits
for as long as it takes the others to hear who leads now, on a busy machine too.
"""

from __future__ import annotations

import functools

from milepost.broker.topology import zookeeper_topics
from milepost.cli.main import main
from milepost.cluster import controlled_shutdown

if __name__ == "__main__":
    zookeeper_topics.assign_replicas = functools.partial(zookeeper_topics.assign_replicas, start=0)
    controlled_shutdown.LOOK_SECONDS, controlled_shutdown.ANSWER_SECONDS = 0.4, 120.0
    main(prog_name="milepost")
