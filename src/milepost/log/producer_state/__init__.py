"""What a log remembers about producers and transactions, in memory and in snapshots."""
