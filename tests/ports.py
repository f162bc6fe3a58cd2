"""Ports of the loopback address that nobody else gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Nobody listens there, and the kernel gives it to nobody who asks for a free one; a broker that names it may listen there.

    SO_REUSEADDR lets it: of several sockets with the option on one port, one may listen.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
