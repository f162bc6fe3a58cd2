"""A directory that goes away with whoever asked for it: when told to, when nobody knows it any more, or at the end of the process.

A forked child inherits all of that, and must not take the directory away from its parent: only the process that made it removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref


class TemporaryDirectory:
    def __init__(self, prefix: str):
        self.path = tempfile.mkdtemp(prefix=prefix)
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)
