"""Where a broker stands among others: alone, in ZooKeeper's cluster, or over attached directories."""
