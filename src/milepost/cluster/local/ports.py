"""Ports of this machine's loopback address: free ones, those that stay free, and whether one is taken."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from milepost.errors import PortUnavailable

HOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Asked for together, so that they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in sockets]


def hold(port: int = 0) -> socket.socket:
    """Until it is closed, nobody who asks for a free port gets this one (0: one that is free now), and nobody answers there.

    Who names it may listen there all the same: of the sockets that have SO_REUSEADDR and one port, one may.
    """
    holder = socket.socket()
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOST, port))
    except BaseException:
        holder.close()
        raise
    return holder


def is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


@contextmanager
def held(port: int, whose: str) -> Iterator[None]:
    """Nobody else gets the port while the process that is to listen there is on its way."""
    try:
        holder = hold(port)
    except OSError:
        raise PortUnavailable(
            f"port {port}, which {whose} would take, is in use by another program: choose others with --port-base, 0 for free ones"
        ) from None
    with holder:
        yield
