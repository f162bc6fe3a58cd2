"""The formats of Kafka's internal topics: `consumer_offsets` and `transaction_state`, one module each."""
