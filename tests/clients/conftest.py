"""One broker process for each client's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.served import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    running = Served(tmp_path_factory.mktemp("served"))
    yield running
    running.stop()
