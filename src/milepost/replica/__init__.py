"""Partitions as a broker serves them: who leads, up to where may be read, and who waits for more."""
