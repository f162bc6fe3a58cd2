"""A broker's metrics under Kafka's names, and `/metrics` over HTTP."""
