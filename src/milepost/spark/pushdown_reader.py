"""The reader that takes filters. A class of its own: Spark fails a query whose reader has `pushFilters` while pushdown is switched off.

See `pushdown` for what is left out, and why this is not the default.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.datasource import Filter

from milepost.spark.log_files.transport import LogFilesTransport
from milepost.spark.offset_range import OffsetRange
from milepost.spark.pushdown import Pruning, pruning_of
from milepost.spark.reader import MilepostReader
from milepost.spark.transport import Transport


class PushdownReader(MilepostReader):
    pruning = Pruning()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.pruning = pruning_of(filters)
        # All of them are Spark's to apply again: a split holds what may pass, not only what does.
        return filters

    def ranges(self, transport: Transport) -> list[OffsetRange]:
        pruning = self.pruning
        found = [pruning.within(each) for each in super().ranges(transport) if pruning.wants(each)]
        # A broker's answer may overlook records, so it ends nothing.
        if isinstance(transport, LogFilesTransport) and found:
            if pruning.time is not None:
                starts = transport.find_times({each.partition: pruning.time for each in found}, as_kafka=False)
                found = [
                    OffsetRange(each.partition, max(each.start, each.end if start is None else min(start, each.end)), each.end)
                    for each in found
                    for start in [starts[each.partition]]
                ]
            if pruning.end_time is not None and self.options.timestamps_ordered:
                ends = transport.find_times({each.partition: pruning.end_time for each in found}, as_kafka=False)
                found = [
                    OffsetRange(each.partition, each.start, each.end if end is None else max(each.start, min(end, each.end)))
                    for each in found
                    for end in [ends[each.partition]]
                ]
        return [each for each in found if each.size > 0]
