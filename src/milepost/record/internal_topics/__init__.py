"""The formats of Kafka's internal topics: `consumer_offsets` and `transaction_state`, one module each."""

from milepost.record.internal_topics import consumer_offsets, transaction_state
from milepost.record.internal_topics.unknown import Unknown

__all__ = ["Unknown", "consumer_offsets", "transaction_state"]
