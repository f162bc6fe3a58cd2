"""Milepost and Apache Kafka on the same machine, in turns: `make bench-broker`."""
