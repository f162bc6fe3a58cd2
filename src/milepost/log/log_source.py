"""Where the logs of a `LogManager` come from: directories of its own, or somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from milepost.clock import Clock
    from milepost.config.broker import BrokerConfig
    from milepost.files import Disk
    from milepost.log.directory.data_directory import DataDirectory
    from milepost.log.log import Log
    from milepost.topic_partition import TopicPartition


class StartingLogs(Protocol):
    """What a source needs of the log manager."""

    config: BrokerConfig
    disk: Disk
    clock: Clock
    directories: list[DataDirectory]

    def load_partition(self, directory: DataDirectory, partition: TopicPartition, path: str) -> Log: ...

    def note_offline(self, path: str, error: Exception) -> None: ...

    def take_offline(self, directory: DataDirectory, error: OSError) -> None: ...

    def remove_later(self, path: str, delay_ms: int) -> None: ...


class LogSource(Protocol):
    is_ours: bool
    """Whether maintenance changes what is in the directories, and a stop leaves checkpoints and a marker there."""

    def open(self, logs: StartingLogs) -> None:
        """Find the directories, and read what they say of their logs."""

    def load(self, logs: StartingLogs) -> None:
        """Load every partition."""
