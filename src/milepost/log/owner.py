"""What a log asks of the owner of its data directory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from milepost.log.segments import LogSegments
    from milepost.topic_partition import TopicPartition


class OwnedLog(Protocol):
    """What an owner looks at of a log."""

    partition: TopicPartition
    directory: str
    segments: LogSegments
    start_offset: int
    high_watermark: int
    end_offset: int
    recovery_point: int
    is_failed: bool


class Owner:
    """This one does nothing: for a log on its own."""

    goes_offline_when_full = False
    """Whether a full disk is waited out, or fails the directory: for one whose records others have, too."""

    verifies_transactions = False
    """Whether the first batch of a transaction needs a guard: for one that asks the transaction coordinator first (KIP-890)."""

    def publish_start(self, log: OwnedLog, start_offset: int) -> Callable[[], None]:
        """A new log start must be durable before segments below it disappear: what is returned does it, on any thread."""
        return lambda: None

    def publish_recovery_point(self, log: OwnedLog, offset: int) -> None:
        """Make a lower recovery point durable before offsets behind it are written anew."""

    def publish_clean_end(self, log: OwnedLog, offset: int) -> None:
        """Make durable, before offsets behind it are written anew, that nothing from there on has been cleaned."""

    def without_cleaning(self, log: OwnedLog) -> AbstractContextManager[object]:
        """No segment of the log is replaced by a cleaned one in between: for whoever cuts it, or changes its cleanup.policy."""
        return nullcontext()

    def failed(self, log: OwnedLog, error: OSError) -> None:
        """The log's files can no longer be trusted to be what it thinks they are."""

    def closed(self, log: OwnedLog) -> None:
        """The log is closed; whether it was left clean is in `log.is_failed`."""
