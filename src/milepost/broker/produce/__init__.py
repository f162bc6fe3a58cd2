"""Produce: the ways in (`handler`, `frames`), the one wait (`pending`), and who asks before a transaction starts
(`transaction_verification`)."""
