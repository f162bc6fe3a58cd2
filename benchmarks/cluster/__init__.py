"""Three milepost brokers and three of Apache Kafka, each with a ZooKeeper, on the same machine, in turns: `make bench-cluster`."""
