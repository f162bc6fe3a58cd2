"""Maintenance of logs: by the clock, beside requests, and without ending the broker when it fails."""
