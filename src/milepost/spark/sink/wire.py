"""Producing the rows of a task to brokers, at least once.

Batches are numbered, so that a lost answer doubles nothing within a task; a task that Spark runs again writes its rows again. The batches
are those of the file sink; one of each partition is sent at a time, to all leaders at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from milepost.client.cluster import Cluster
from milepost.client.producer import Producer
from milepost.clock import SystemClock
from milepost.spark.sink.encode import Encoder, Rows
from milepost.spark.sink.options import SinkOptions
from milepost.spark.sink.partition_counts import on_brokers
from milepost.spark.sink.rows import normalised
from milepost.spark.sink.tables import tables
from milepost.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


def produce(batches: Iterable[pa.RecordBatch], options: SinkOptions, task: int) -> int:
    """How many records were acknowledged: all, or it raises."""
    assert options.bootstrap_servers is not None
    records = 0
    with Cluster(options.bootstrap_servers, client_id=options.client_id, security=options.security.security()) as cluster:
        producer = Producer(cluster)
        encoder = Encoder(options, on_brokers(cluster), task)
        for group in tables(batches):
            waiting: dict[TopicPartition, list[Rows]] = {}
            for partition, count, rows in encoder.encode(normalised(group, options, SystemClock().now_ms())):
                waiting.setdefault(partition, []).append(rows)
                records += count
            while waiting:
                # One batch of each partition at a time: what comes behind must find its number.
                ready = {partition: rows.pop(0) for partition, rows in waiting.items()}
                producer.send_batches(
                    {partition: rows.batch(options, producer.numbering(partition)) for partition, rows in ready.items()},
                    {partition: len(rows) for partition, rows in ready.items()},
                )
                waiting = {partition: rows for partition, rows in waiting.items() if rows}
    return records
