"""Reading a log from brokers."""
