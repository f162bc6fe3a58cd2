"""Ports of the loopback address that nobody else gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from milepost.cluster.local.ports import hold


@contextmanager
def held_port() -> Iterator[int]:
    """Nobody answers there, and a broker that names it may listen there."""
    with hold() as holder:
        yield holder.getsockname()[1]
