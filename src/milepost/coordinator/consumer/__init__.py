"""The consumer group protocol (KIP-848): heartbeats in, epochs and assignments out."""
