"""A cluster on one machine: ZooKeeper and brokers as processes that go on by themselves, and the record by which they are found again."""
