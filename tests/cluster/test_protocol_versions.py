"""What an inter-broker protocol version means; the recorded clusters spoke 3.9 and 2.3."""

from __future__ import annotations

import pytest

from milepost.cluster.protocol_versions import protocol_versions
from milepost.errors import InvalidConfiguration


@pytest.mark.parametrize(
    ("text", "leader_and_isr", "update_metadata", "stop_replica", "fetch", "shutdown", "markers"),
    [
        ("3.9", 7, 8, 4, 17, 3, 1),
        ("3.9-IV0", 7, 8, 4, 17, 3, 1),
        ("3.3", 6, 7, 3, 13, 3, 1),
        ("2.8", 5, 7, 3, 12, 3, 1),
        ("2.4-IV1", 4, 6, 2, 11, 3, 0),
        ("2.3", 2, 5, 1, 11, 2, 0),
    ],
)
def test_versions_of_requests(text, leader_and_isr, update_metadata, stop_replica, fetch, shutdown, markers):
    versions = protocol_versions(text)
    assert (versions.leader_and_isr, versions.update_metadata, versions.stop_replica) == (
        leader_and_isr,
        update_metadata,
        stop_replica,
    )
    assert (versions.fetch, versions.controlled_shutdown, versions.write_txn_markers) == (fetch, shutdown, markers)


@pytest.mark.parametrize("text", ["4.0", "2.2", "1.0", "0.10.2"])
def test_versions_that_cannot_be_spoken(text):
    with pytest.raises(InvalidConfiguration, match=r"from 2\.3 to 3\.9 can be spoken"):
        protocol_versions(text)


@pytest.mark.parametrize("text", ["", "latest", "3", "3.x"])
def test_what_is_no_version(text):
    with pytest.raises(InvalidConfiguration, match=r"it should look like 3\.9"):
        protocol_versions(text)
