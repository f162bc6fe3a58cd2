"""Produce: the fast path (`frames`) and the general path (`handler`), the one wait (`pending`), and who asks before a transaction starts
(`transaction_verification`)."""
