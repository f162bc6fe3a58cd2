"""Regular expressions of consumers: RE2's syntax, matched in bounded time."""
