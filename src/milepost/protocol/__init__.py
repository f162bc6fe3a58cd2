"""The Kafka wire protocol without sockets: which APIs exist, bytes to messages, messages to bytes, bytes to frames."""
