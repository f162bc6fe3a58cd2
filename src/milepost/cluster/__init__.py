"""What brokers agree on: topics, settings, who is there. Alone, or through ZooKeeper."""
