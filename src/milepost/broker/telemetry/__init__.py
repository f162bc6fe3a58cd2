"""What a broker tells about itself: Kafka's metrics, and `/metrics` over HTTP."""
