"""The kinds of brokers, each of them put together in one module."""
