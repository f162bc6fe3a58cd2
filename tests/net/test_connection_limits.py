"""How many connections there may be when nobody says so: as many as leave the logs their descriptors."""

from __future__ import annotations

import resource

import pytest

from milepost.files import handles
from milepost.net.connection_limits import NO_LIMIT, ConnectionLimits


@pytest.mark.parametrize(
    ("descriptors", "connections"),
    [(256, 160), (1024, 704), (20_000, 14_654), (1_000_000, 800_000), (resource.RLIM_INFINITY, NO_LIMIT)],
)
def test_connections_and_log_files_together_fit_the_descriptors_of_the_process(monkeypatch, descriptors, connections):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert ConnectionLimits().total == connections
    assert descriptors == resource.RLIM_INFINITY or connections + handles.default_limit() < descriptors
