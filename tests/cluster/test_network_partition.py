"""Links between brokers that are cut without a word, in network namespaces; see `partitioned`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.cluster.partitioned import FAULTS

pytestmark = [pytest.mark.trouble]


def unshare(*command):
    return subprocess.run(["unshare", "-rnm", *command], capture_output=True, text=True, env=os.environ)


@pytest.fixture(scope="module", autouse=True)
def namespaces(zookeeper_server):
    if shutil.which("unshare") is None or shutil.which("ip") is None or unshare("ip", "link", "set", "lo", "up").returncode:
        pytest.skip("network namespaces need `unshare`, `ip` and a kernel that lets everybody use them")


@pytest.mark.parametrize("fault", FAULTS)
def test_acknowledged_records_survive(tmp_path, fault):
    done = unshare(sys.executable, "-m", "tests.cluster.partitioned", fault, str(tmp_path))
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert "none lost, none twice" in done.stdout
