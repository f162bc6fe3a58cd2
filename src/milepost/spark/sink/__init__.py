"""Writing a DataFrame to a log: rows to batches, staged and committed once, or produced."""
