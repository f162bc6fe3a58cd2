"""A real ZooKeeper server for the tests that need one: started once, a chroot of its own for each test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count

import pytest

from milepost.cluster.zookeeper.server import NO_JAVA, ZooKeeperServer, class_path
from milepost.errors import InvalidConfiguration
from milepost.files import Disk
from tests.cluster.processes import running_zookeeper
from tests.interop.toolchain import unavailable

_chroots = count()


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    pytest.importorskip("kazoo", reason="the ZooKeeper client is not installed: pip install 'milepost[zookeeper]'")
    try:
        class_path(Disk())
    except InvalidConfiguration as missing:
        unavailable(str(missing))
    if shutil.which("java") is None:
        unavailable(NO_JAVA)
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeperServer) -> str:
    """Where to connect to: a part of the server that nobody else uses."""
    return f"{zookeeper_server.address}/test-{next(_chroots)}"
