"""The broker: wiring, life cycle, and one file per request in `requests`."""
