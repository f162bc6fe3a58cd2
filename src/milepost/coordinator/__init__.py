"""Coordinators: groups (classic and consumer protocol), their offsets, and transactions."""
