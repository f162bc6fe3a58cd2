"""The stream reader: one object on the driver that says how far there is to read, and tasks that read.

Offsets are the connector's, `{"page_visits": {"0": 23}}`, so a checkpoint reads the same. Where a query that has a checkpoint goes on is
Spark's affair; here is decided what lies between two such offsets:

    a partition that was not there before     from its first offset on; if that is not 0, what was deleted before is data loss
    a partition that is gone                  data loss; made again, it is one that was not there before
    offsets that are gone                     data loss, as in a batch query
    a log that ends below what was read       data loss; the query goes on from its new end

Data loss is an error, or a warning when failOnDataLoss is false.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from milepost.clock import SystemClock
from milepost.errors import MilepostError
from milepost.spark.admission import Admission
from milepost.spark.bounds import data_loss, offsets_from_json, offsets_to_json, starting_offsets, within
from milepost.spark.columns import Columns
from milepost.spark.group_offsets import GroupOffsets
from milepost.spark.log_files.memory import Pace
from milepost.spark.offset_range import OffsetRange
from milepost.spark.open_transport import open_transport
from milepost.spark.options import PATH, SourceOptions
from milepost.spark.reader import read_split
from milepost.spark.transport import Split, Transport
from milepost.spark.worker_errors import said_first
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

Offsets = dict[TopicPartition, int]
LOOKS = 3


class MilepostStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions, columns: Columns):
        self.options = options
        self.columns = columns
        self._driver: Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        # To the tasks goes what they need: connections and what is remembered stay on the driver.
        return {"options": self.options, "columns": self.columns, "_driver": None}

    @property
    def driver(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self.options)
        return self._driver

    # Where.

    @said_first()
    def initialOffset(self) -> dict[str, Any]:
        return offsets_to_json(self.driver.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Only says that there is a limit: which one holds is decided in `latestOffset`, where several can hold at once."""
        options = self.options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @said_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        is_limited = not isinstance(limit, ReadAllAvailable)
        return offsets_to_json(self.driver.target(offsets_from_json(start), is_limited=is_limited))

    @said_first()
    def prepareForTriggerAvailableNow(self) -> None:
        self.driver.freeze()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return offsets_to_json(self.driver.latest) if self.driver.latest else None

    # What.

    @said_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(split) for split in self.driver.plan(offsets_from_json(start), offsets_from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition.value, self.columns)

    # When it is done.

    @said_first()
    def commit(self, end: dict[str, Any]) -> None:
        self.driver.commit(offsets_from_json(end))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()


class RefusedStream(MilepostStreamReader):
    """A stream whose options are wrong. It says so when it is asked where to begin: Spark's process cannot take an error before that, and
    adds one of its own."""

    def __init__(self, error: MilepostError):
        self.error = error

    def __getstate__(self) -> dict[str, Any]:
        return {"error": self.error}

    @property
    def driver(self) -> Driver:
        raise self.error

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None

    def stop(self) -> None:
        return


class Driver:
    """What lives as long as the query: the way to the log, and what was seen last."""

    def __init__(self, options: SourceOptions):
        self.options = options
        self.transport: Transport = open_transport(options)
        self.admission = Admission(options)
        self.groups = GroupOffsets(options) if options.commit_group else None
        self.latest: Offsets = {}
        # Spark asks again at once when there is nothing new, which of many files or partitions would take a core, and of a broker's, too.
        # A broker knows of new records at once: it is waited for only as long as the last answer was work.
        self.pace = Pace() if options.transport == PATH else Pace(least_pause=0.0)

    def close(self) -> None:
        self.transport.close()
        if self.groups is not None:
            self.groups.close()

    def initial(self) -> Offsets:
        partitions = self.transport.partitions(self.options.subscription)
        return starting_offsets(self.options, self.transport, partitions, SystemClock().now_ms())

    def freeze(self) -> None:
        self.admission.freeze(self._look())

    def _look(self) -> Offsets:
        for attempt in range(LOOKS):
            there = self.transport.remaining(self.options.subscription)
            try:
                self.latest = self.transport.latest(there)
                break
            except MilepostError:
                # A topic that was deleted between the two questions is no fault of the query's.
                if attempt == LOOKS - 1 or self.transport.remaining(self.options.subscription) == there:
                    raise
        return self.latest

    def target(self, starts: Offsets, *, is_limited: bool) -> Offsets:
        if self.admission.frozen is None:
            self.pace.before_look()
        ends = self._target(starts, is_limited=is_limited)
        self.pace.looked(found=ends != starts)
        return ends

    def _target(self, starts: Offsets, *, is_limited: bool) -> Offsets:
        latest = self._look()
        for _ in range(self.options.fetch_retries):
            # A leader that was elected a moment ago may not know yet how far everybody has it.
            if all(latest.get(partition, start) >= start for partition, start in starts.items()):
                break
            time.sleep(self.options.fetch_retry_interval_ms / 1000)
            latest = self._look()
        known = self._with_new(starts, latest)
        ends = self.admission.target(known, latest, self.transport, is_limited=is_limited)
        # A partition that is gone stays in the offsets only as long as nothing else is read: then its loss is told.
        if all(ends.get(partition) == start for partition, start in known.items()) and len(ends) == len(known):
            return starts
        return ends

    def _with_new(self, starts: Offsets, ends: Offsets) -> Offsets:
        """The starts, with partitions that came since at their first offsets."""
        new = [partition for partition in ends if partition not in starts]
        if not new:
            return dict(starts)
        return {**starts, **self.transport.earliest(new)}

    def plan(self, starts: Offsets, ends: Offsets) -> list[Split]:
        for partition in sorted(starts.keys() - ends.keys()):
            data_loss(self.options, f"{partition}: gone, offsets from {starts[partition]} on were not read yet")
        gone = ends.keys() - set(self.transport.remaining(self.options.subscription)) if ends else set()
        for partition in sorted(gone):
            wanted = f"offsets {starts.get(partition, 0)} to {ends[partition] - 1} are asked for"
            data_loss(self.options, f"{partition}: gone, {wanted}")
        ends = {partition: end for partition, end in ends.items() if partition not in gone}
        if not ends:
            return []
        known = self._with_new(starts, ends)
        for partition in sorted(ends.keys() - starts.keys()):
            if known[partition] > 0:
                data_loss(self.options, f"{partition}: new, and its offsets 0 to {known[partition] - 1} are gone already")
        earliest, latest = self.transport.earliest(ends), self.transport.latest(ends)
        ranges = []
        for partition in sorted(ends):
            if ends[partition] < known[partition]:
                data_loss(
                    self.options, f"{partition}: was read up to {known[partition] - 1}, and the log ends at {ends[partition] - 1}"
                )
            start, end = within(
                self.options, partition, known[partition], ends[partition], earliest[partition], latest[partition]
            )
            if start < end:
                ranges.append(OffsetRange(partition, start, end))
        return self.transport.plan(ranges) if ranges else []

    def commit(self, ends: Offsets) -> None:
        if self.groups is not None:
            self.groups.commit(ends)
