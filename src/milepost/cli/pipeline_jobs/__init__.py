"""`milepost pipeline`: one module per job, and what they share."""
