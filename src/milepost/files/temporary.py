"""A directory that goes away with whoever asked for it."""

from __future__ import annotations

import tempfile


class TemporaryDirectory:
    def __init__(self, prefix: str):
        self._directory = tempfile.TemporaryDirectory(prefix=prefix)

    @property
    def path(self) -> str:
        return self._directory.name

    def remove(self) -> None:
        self._directory.cleanup()
