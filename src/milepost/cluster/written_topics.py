"""What is written down of topics beside the logs of several directories, for those who only read them."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from milepost.cluster.change_log import ChangeLog
from milepost.cluster.solo import KnownTopic, SoloCluster
from milepost.errors import KafkaStorage
from milepost.files import Disk

logger = logging.getLogger("milepost.cluster")


def topics_written_down(directories: Sequence[str], disk: Disk) -> dict[str, KnownTopic]:
    """What the clusters of these directories remember; where two speak of a topic, the first does. A damaged file says nothing."""
    found: dict[str, KnownTopic] = {}
    for directory in reversed(directories):
        try:
            topics = SoloCluster(ChangeLog(directory, disk), random.Random(), "", -1).topics
        except KafkaStorage as damage:
            logger.warning("%s; the settings of its topics are not known", damage)
        else:
            found.update(
                (name, KnownTopic(topic.configs, topic.topic_id_text, topic.partitions)) for name, topic in topics.items()
            )
    return found
