"""Transactional ids: their producers, their states, and how a transaction ends."""
