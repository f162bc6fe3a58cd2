"""Numbers about a running process: histograms, rates, a registry of Kafka's metrics, and their text for Prometheus."""
