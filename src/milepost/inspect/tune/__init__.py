"""Which index interval and segment size suit a log."""
