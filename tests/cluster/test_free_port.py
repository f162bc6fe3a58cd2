"""Ports of brokers that are killed and come back: nobody else may have taken them meanwhile."""

from __future__ import annotations

import socket

import pytest

from tests.cluster.processes import free_port


def test_port_stays_ours_while_nobody_listens_there():
    port = free_port()
    for _ in range(2):
        with socket.socket() as stranger, pytest.raises(OSError, match="Address already in use"):
            stranger.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):  # its broker, which names it
            pass


def test_ports_differ():
    assert len({free_port() for _ in range(20)}) == 20
