"""The two ways to a log, behind one face: its files (`path`), or a broker (`kafka.bootstrap.servers`).

A `Transport` lives on the driver: it knows partitions, offsets and times, and turns ranges of offsets into `Split`s. A split is
what one task reads; it crosses to an executor as plain values and reads there by itself, without the transport. `open_transport`
makes the one that the options ask for.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from milepost.spark.offset_range import OffsetRange
from milepost.spark.subscription import Subscription
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from milepost.spark.columns import Columns


class Split(abc.ABC):
    """What one task reads."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The offsets that it stands for."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Bytes to read, about."""

    @abc.abstractmethod
    def read(self, columns: Columns, *, reuse_buffers: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows of its offsets, in order within a partition. With `reuse_buffers` a batch is good until the next one is asked for."""


class Transport(abc.ABC):
    """May remember what costs much to find out; every call sees the log as it is then."""

    @abc.abstractmethod
    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        """What is subscribed to; InvalidArgument where something is named and not there."""

    @abc.abstractmethod
    def remaining(self, subscription: Subscription) -> list[TopicPartition]:
        """The same for a query that runs: what is named and not there any more is left out."""

    @abc.abstractmethod
    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]: ...

    @abc.abstractmethod
    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Behind the last offset that may be read: the high watermark, or the last stable offset when only committed records are wanted."""

    @abc.abstractmethod
    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of the first record that is not older than the time (epoch milliseconds); None when there is none."""

    @abc.abstractmethod
    def bytes_between(self, ranges: Sequence[OffsetRange]) -> int:
        """How many bytes of log the ranges take, about."""

    @abc.abstractmethod
    def limit_bytes(self, ranges: Sequence[OffsetRange], max_bytes: int) -> dict[TopicPartition, int]:
        """Where each partition ends when no more than about `max_bytes` are read in all; one batch of each range at least."""

    @abc.abstractmethod
    def plan(self, ranges: Sequence[OffsetRange]) -> list[Split]:
        """The tasks for ranges that lie between earliest and latest, sized as the options say."""

    def hold_still(self) -> None:  # noqa: B027  a broker cannot
        """For a batch query: every later answer may come from one look at the log, which costs less and agrees with itself."""

    def close(self) -> None:  # noqa: B027  not every transport holds something
        """Give back what it holds."""

    def __enter__(self) -> Transport:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()
