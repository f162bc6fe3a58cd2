"""A file in memory, for libraries that read from files only: what it holds never comes to a disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def file_in_memory(content: bytes) -> Iterator[str]:
    """Its path, in this process alone."""
    fd = os.memfd_create("milepost", os.MFD_CLOEXEC)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(fd, rest) :]
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)
