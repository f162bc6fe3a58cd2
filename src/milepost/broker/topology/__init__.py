"""Where a broker stands among others: alone (also over attached directories), or in ZooKeeper's cluster."""
