"""The levels of features: what ApiVersions tells of them, and UpdateFeatures, which moves them.

Every code and level is what Kafka 4.3.0 answered to the same requests.
"""

from __future__ import annotations

import json

import pytest

from milepost.protocol.messages import (
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    UpdateFeaturesRequest,
)
from tests.broker.wire import Wire

TXN, GROUP = "transaction.version", "group.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def features(wire: Wire, version: int = 4):
    """(supported, finalized, epoch)."""
    answer = wire.ask(ApiVersionsRequest(client_software_name="wire", client_software_version="1"), version)
    assert all(feature.max_version_level == feature.min_version_level for feature in answer.finalized_features)
    return (
        {feature.name: (feature.min_version, feature.max_version) for feature in answer.supported_features},
        {feature.name: feature.max_version_level for feature in answer.finalized_features},
        answer.finalized_features_epoch,
    )


def update(wire: Wire, *updates: tuple[str, int, int], version: int = 2, validate_only: bool = False):
    asked = UpdateFeaturesRequest.FeatureUpdate
    request = UpdateFeaturesRequest(
        timeout_ms=60_000,
        feature_updates=[
            asked(feature=name, max_version_level=level, upgrade_type=kind)
            if version
            else asked(feature=name, max_version_level=level)
            for name, level, kind in updates
        ],
    )
    if version:
        request.validate_only = validate_only
    return wire.ask(request, version)


def test_a_new_cluster_has_transactions_of_version_2_and_the_consumer_protocol(wire):
    assert features(wire) == ({GROUP: (0, 1), TXN: (0, 2)}, {GROUP: 1, TXN: 2}, 0)


def test_version_3_lists_no_supported_feature_that_starts_at_0(wire):
    supported, finalized, _ = features(wire, 3)
    assert (supported, finalized) == ({}, {GROUP: 1, TXN: 2})


def test_older_versions_know_of_no_features(wire):
    answer = wire.ask(ApiVersionsRequest(), 2)
    assert (answer.supported_features, answer.finalized_features) == ([], [])


@pytest.mark.parametrize("version", range(3))
def test_a_feature_may_be_asked_for_the_level_that_it_has(wire, version):
    answer = update(wire, (TXN, 2, UPGRADE), version=version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert [(result.feature, result.error_code) for result in answer.results] == [(TXN, 0)] * (version < 2)
    assert features(wire)[2] == 0, "nothing has changed"


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_a_level_goes_down_and_up_again_and_every_change_raises_the_epoch(wire, kind):
    assert update(wire, (TXN, 1, kind)).error_code == 0
    assert features(wire)[1:] == ({GROUP: 1, TXN: 1}, 1)
    assert update(wire, (TXN, 0, kind)).error_code == 0
    assert features(wire)[1:] == ({GROUP: 1}, 2)
    assert update(wire, (TXN, 2, UPGRADE)).error_code == 0
    assert features(wire)[1:] == ({GROUP: 1, TXN: 2}, 3)


@pytest.mark.parametrize(
    ("feature", "level", "kind", "sentence"),
    [
        (TXN, 1, UPGRADE, "transaction.version is at level 2: to go down to 1, ask for a downgrade"),
        (TXN, 3, UPGRADE, "transaction.version has the levels 0 to 2, and 3 is none of them"),
        (TXN, -1, UPGRADE, "transaction.version has the levels 0 to 2, and -1 is none of them"),
        (TXN, 1, 0, "upgrade type 0 is none of upgrade 1, downgrade 2, unsafe downgrade 3"),
        (TXN, 1, 7, "upgrade type 7 is none of upgrade 1, downgrade 2, unsafe downgrade 3"),
        ("nope", 1, UPGRADE, "there is no feature 'nope' here"),
        ("nope", 0, SAFE, "there is no feature 'nope' here"),
        ("metadata.version", 30, UPGRADE, "there is no feature 'metadata.version' here"),
    ],
)
def test_a_level_that_cannot_be_is_refused_with_a_sentence_and_with_it_all_others(wire, feature, level, kind, sentence):
    answer = update(wire, (GROUP, 0, SAFE), (feature, level, kind))
    assert (answer.error_code, answer.results) == (95, [])
    assert answer.error_message == f"no feature has been changed: {sentence}"
    assert features(wire)[1:] == ({GROUP: 1, TXN: 2}, 0)


@pytest.mark.parametrize("kind", [SAFE, UNSAFE])
def test_a_downgrade_does_not_lead_up(wire, kind):
    update(wire, (TXN, 0, SAFE))
    answer = update(wire, (TXN, 2, kind))
    assert answer.error_code == 95
    assert (
        answer.error_message
        == "no feature has been changed: transaction.version is at level 0: a downgrade does not lead up to 2"
    )


def test_version_0_can_only_go_up(wire):
    assert update(wire, (TXN, 1, 0), version=0).error_code == 95
    update(wire, (TXN, 0, SAFE))
    assert update(wire, (TXN, 1, 0), version=0).error_code == 0
    assert features(wire)[1] == {GROUP: 1, TXN: 1}


def test_what_is_only_checked_is_not_changed(wire):
    assert update(wire, (TXN, 1, SAFE), validate_only=True).error_code == 0
    assert features(wire)[1:] == ({GROUP: 1, TXN: 2}, 0)


def test_no_update_at_all_is_fine(wire):
    assert update(wire).error_code == 0


def test_levels_and_their_epoch_survive_a_restart(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        update(wire, (TXN, 1, SAFE))
        update(wire, (GROUP, 0, SAFE))
    brokers.stop(broker)
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        assert features(wire)[1:] == ({TXN: 1}, 2)
    assert broker.transactions.settings.transaction_version == 1


def test_a_directory_from_before_features_were_stored_is_at_the_first_levels(brokers):
    broker = brokers.start()
    with Wire(broker.bootstrap_servers) as wire:
        update(wire, (TXN, 1, SAFE))
    path = f"{broker.logs.directories[0].path}/milepost.cluster.json"
    brokers.stop(broker)
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    del content["features"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    with Wire(brokers.start().bootstrap_servers) as wire:
        assert features(wire)[1:] == ({GROUP: 1, TXN: 2}, 0)


def test_levels_that_cannot_be_remembered_do_not_change(broker, wire, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("milepost.cluster.change_log.ChangeLog.append", full)
    assert update(wire, (TXN, 1, SAFE)).error_code == 56
    assert features(wire)[1:] == ({GROUP: 1, TXN: 2}, 0)
    assert broker.transactions.settings.transaction_version == 2


def test_without_group_version_the_consumer_protocol_is_not_served(wire):
    update(wire, (GROUP, 0, SAFE))
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="readers",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert wire.ask(heartbeat, 1).error_code == 35
    (group,) = wire.ask(ConsumerGroupDescribeRequest(group_ids=["readers"]), 1).groups
    assert (group.group_id, group.error_code) == ("readers", 35)
    update(wire, (GROUP, 1, UPGRADE))
    assert wire.ask(heartbeat, 1).error_code == 0
