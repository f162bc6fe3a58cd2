"""A data directory and what lies in it beside the logs: its lock, its identity, its checkpoints, the names in it."""
