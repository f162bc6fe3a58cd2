"""Fetch: one read of a partition, for consumers and followers, new requests and repeated ones."""
