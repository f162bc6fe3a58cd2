"""Compaction: which log is cleaned next, what stays of it, and how the new segments take the place of the old ones."""
