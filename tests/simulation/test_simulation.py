"""A few hundred simulated clusters under faults: nothing acknowledged is lost, nobody sees what never was, all agree in the end.

`make simulate` runs as many as one likes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster import run

SEEDS_EACH = 30
FOUND = {
    416: "a follower was not told that its log had parted from the leader's, because nothing else was new",
    7970: "a follower that had to cut its log was not told the high watermark again",
    4863: "a coordinator that was made while its broker had to ask ZooKeeper first never loaded what it led",
    670: "a deletion was held up for good by what a broker had said before it was started again",
    20194: "a commit was lost: a coordinator had answered from a record that only it had",
}
"""Seeds that failed once, and what was wrong."""
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("first", range(0, 240, SEEDS_EACH))
def test_cluster_keeps_its_promises_under_faults(first):
    for seed in range(first, first + SEEDS_EACH):
        findings = run(seed).findings
        assert not findings, f"make simulate SEED={seed} TRACE=1 shows how it came to {findings[:3]}"


@pytest.mark.parametrize("seed", FOUND)
def test_seed_that_failed_once(seed):
    findings = run(seed).findings
    assert not findings, f"again: {FOUND[seed]}? {findings[:3]}"


def test_seed_replays_exactly_also_in_another_process():
    """Whatever order sets have there."""
    expected = run(8)
    command = [sys.executable, "-m", "tests.simulation", "8"]
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        assert f"fingerprint {expected.fingerprint:08x}, {expected.events} events" in shown
