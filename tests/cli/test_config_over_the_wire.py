"""`milepost config describe` and `alter`: settings of a running broker and its topics."""

from __future__ import annotations

import json

import pytest

from tests.cli.running import run


def test_settings_of_a_topic_are_shown_changed_and_taken_away(ask):
    ask("topics", "create", "tuned", "--config", "retention.ms=1000")
    assert ask("config", "describe", "--topic", "tuned", "--changed").lines == ["retention.ms=1000  (dynamic topic config)"]
    altered = ask("config", "alter", "--topic", "tuned", "--set", "segment.ms=77", "--unset", "retention.ms")
    assert (altered.code, altered.lines) == (0, ["topic tuned: changed"])
    assert ask("config", "describe", "--topic", "tuned", "retention.ms", "segment.ms").lines == [
        "retention.ms=604800000  (default config)",
        "segment.ms=77  (dynamic topic config)",
    ]


def test_dry_run_changes_nothing(ask):
    ask("topics", "create", "dry")
    ran = ask("config", "alter", "--topic", "dry", "--set", "segment.ms=77", "--dry-run", "--json")
    assert json.loads(ran.lines[0]) == {"resource": "topic dry", "set": {"segment.ms": "77"}, "unset": [], "applied": False}
    assert ask("config", "describe", "--topic", "dry", "--changed").lines == []


def test_settings_of_a_broker_as_json(ask):
    rows = [json.loads(line) for line in ask("config", "describe", "--broker", 0, "--changed", "--json").lines]
    by_name = {row["name"]: row for row in rows}
    assert by_name["offsets.topic.num.partitions"] == {
        "name": "offsets.topic.num.partitions",
        "value": "3",
        "source": "STATIC_BROKER_CONFIG",
        "is_read_only": True,
        "is_sensitive": False,
    }


def test_setting_of_all_brokers(ask):
    assert ask("config", "alter", "--all-brokers", "--set", "log.retention.ms=123456").lines == ["all brokers: changed"]
    assert ask("config", "describe", "--all-brokers").lines == ["log.retention.ms=123456  (dynamic default broker config)"]
    assert ask("config", "alter", "--all-brokers", "--unset", "log.retention.ms").code == 0
    assert ask("config", "describe", "--all-brokers").lines == []


def test_setting_that_there_is_not_is_named(ask):
    ask("topics", "create", "asked")
    ran = ask("config", "describe", "--topic", "asked", "segment.ms", "no.such.thing")
    assert (ran.code, len(ran.lines), ran.errors) == (0, 1, ["milepost: topic asked has no setting no.such.thing"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["alter", "--topic", "odd", "--set", "retention.ms=soon"],
            "settings of topic odd: the broker answers INVALID_CONFIG (40)",
        ),
        (
            ["alter", "--topic", "absent", "--set", "retention.ms=5"],
            "settings of topic absent: the broker answers UNKNOWN_TOPIC_OR_PARTITION (3)",
        ),
        (["describe", "--topic", "absent"], "settings of topic absent: the broker answers UNKNOWN_TOPIC_OR_PARTITION (3)"),
        (["describe", "--broker", 7], "there is no broker 7; the cluster has 0"),
    ],
)
def test_refusal_is_one_sentence_and_4(ask, arguments, sentence):
    ask("topics", "create", "odd")
    ran = ask("config", *arguments)
    assert (ran.code, ran.lines, len(ran.errors)) == (4, [], 1)
    assert ran.errors[0].startswith(f"milepost: {sentence}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe"],
        ["describe", "--topic", "t", "--broker", 0],
        ["alter", "--topic", "t"],
        ["alter", "--topic", "t", "--set", "novalue"],
        ["alter", "--set", "a=b"],
    ],
)
def test_wrong_usage_is_2(arguments):
    assert run("config", *arguments).code == 2
