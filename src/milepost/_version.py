"""The version, for those below the root package too."""

__version__ = "0.1.0"
