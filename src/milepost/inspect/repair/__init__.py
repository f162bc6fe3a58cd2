"""Making a damaged directory whole: the plan, and doing it."""
