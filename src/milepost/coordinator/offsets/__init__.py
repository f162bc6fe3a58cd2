"""Committed offsets of groups."""
