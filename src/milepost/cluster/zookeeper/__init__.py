"""ZooKeeper as the cluster sees it: operations and their results, Kafka's znodes, and a session that runs them."""
