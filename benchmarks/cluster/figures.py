"""The figures of `make bench-cluster` and their goals."""

from __future__ import annotations

from benchmarks.broker.table import Figure, both_clients

FIGURES = [
    *both_clients("64k", "produce, acks=all, 3 replicas, 64 KB batches", "MB/s", 2),
    *both_clients("p50", "one record, acks=all, p50", "us", 0.6, is_cost=True),
    *both_clients("p99", "one record, acks=all, p99", "us", 0.6, is_cost=True),
    Figure("rss load", "memory per broker after the load", "MB", most=120, is_cost=True),
    Figure("up", "three brokers and ZooKeeper up", "s", most=3, is_cost=True),
    Figure("rss idle", "memory per broker after the start", "MB"),
    Figure("create", "a topic of all the partitions: made, in sync", "s"),
    Figure("failover", "controller killed: all partitions accept acks=all, after its znode went", "s", most=2, is_cost=True),
    Figure("failover half", "the same, half of the partitions", "s"),
    Figure("rss partitions", "memory per broker with these partitions", "MB"),
    Figure("move", "clean leader move, median", "ms", most=50, is_cost=True),
    Figure("move worst", "clean leader move, worst", "ms"),
    Figure("catch-up", "follower catches up", "MB/s", most=200),
    Figure("catch-up rss", "memory per broker after that", "MB"),
    Figure("control idle", "control request, own listener, idle, p99", "ms"),
    Figure("control p50", "control request, own listener, under load, p50", "ms"),
    Figure("control p99", "control request, own listener, under load, p99", "ms"),
    Figure("control added", "what the load adds to the p99", "ms", most=5, is_cost=True),
    Figure("shared idle", "control request, shared listener, idle, p99", "ms"),
    Figure("shared p50", "control request, shared listener, under load, p50", "ms"),
    Figure("shared p99", "control request, shared listener, under load, p99", "ms"),
    Figure("shared added", "what the load adds to the p99", "ms"),
]
