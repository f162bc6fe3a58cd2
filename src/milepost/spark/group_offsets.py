"""Telling a consumer group how far a stream has come, so that tools that watch lag see the query.

The checkpoint decides where a query goes on, never the group: a commit that fails is a warning, and the next one makes up for it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from milepost.client.cluster import Cluster
from milepost.client.offsets import commit
from milepost.client.retrying import Retries
from milepost.client.security import client_security
from milepost.errors import InvalidArgument, MilepostError
from milepost.spark.options import SourceOptions
from milepost.topic_partition import TopicPartition

logger = logging.getLogger("milepost.spark")

PATIENCE_SECONDS = 5.0


class GroupOffsets:
    def __init__(self, options: SourceOptions):
        if options.bootstrap_servers is None:
            raise InvalidArgument(
                "commitGroupId names a group of a broker: say which with kafka.bootstrap.servers, also next to path"
            )
        assert options.commit_group is not None
        self.group = options.commit_group
        self._cluster = Cluster(
            options.bootstrap_servers,
            timeout=PATIENCE_SECONDS,
            retries=Retries(timeout=PATIENCE_SECONDS, attempts=5),
            security=client_security(options.kafka),
        )

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            commit(self._cluster, self.group, offsets)
        except MilepostError as error:
            logger.warning("offsets are not committed to group %s: %s", self.group, error)

    def close(self) -> None:
        self._cluster.close()
