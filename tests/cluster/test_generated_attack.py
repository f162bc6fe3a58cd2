"""What brokers send each other, generated, at one broker of a cluster of three beside a client that is timed.

Here a part of it, and only what is far beyond the bound fails; all of it: `python -m tests.hostile.attack --cluster`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.hostile.attack.campaign import rows
from tests.hostile.attack.cluster_target import ClusterTarget, between_brokers
from tests.hostile.attack.table import HEAD, line
from tests.hostile.test_attack import is_far_beyond, is_outermost

FROM_BROKERS = {"LeaderAndIsr", "UpdateMetadata", "StopReplica", "AlterPartition"}
EVERYTHING = {api.name for api, _ in between_brokers(newest_only=True, proven=False)}


@pytest.fixture(params=[False, True], ids=["stranger", "broker"])
def proven(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def target(tmp_path: Path, zookeeper: str, proven: bool) -> Iterator[ClusterTarget]:
    with closing(ClusterTarget(tmp_path / "attack", zookeeper, proven=proven)) as target:
        yield target


def test_nothing_that_brokers_send_stops_the_others(target: ClusterTarget, proven: bool) -> None:
    wanted = FROM_BROKERS if proven else EVERYTHING
    places = [(api, version) for api, version in between_brokers(newest_only=True, proven=proven) if api.name in wanted]
    done = list(rows(target, places, is_outermost))
    assert {row.attack.api.name for row in done} == wanted
    beyond = [line(row) for row in done if is_far_beyond(row)]
    assert not beyond, "\n".join([HEAD, *beyond])
