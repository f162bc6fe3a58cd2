"""What is in the files of a log, in Kafka's words or as JSON."""
