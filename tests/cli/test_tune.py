"""`milepost tune` as a person runs it, with a log and without one."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from milepost.cli.main import main


@pytest.fixture
def run():
    def invoke(*arguments):
        return CliRunner().invoke(main, ["tune", *(str(argument) for argument in arguments)])

    return invoke


@pytest.fixture
def page_visits(golden):
    return golden.partition("page_visits/kafka-3.9.1", "page_visits-3")


def test_log_is_measured_and_settings_are_proposed(run, page_visits):
    result = run(page_visits)
    assert result.exit_code == 0
    assert "35 batches of 118 to 718 bytes, 482 on average; 249 offsets" in result.output
    assert "index.interval.bytes    4096" in result.output


def test_figures_are_enough_without_a_log(run):
    result = run("--segment-bytes", 1 << 30, "--record-bytes", 100, "--rate", 1000)
    assert result.exit_code == 0
    assert "Batches of 5 records, 561 bytes, are assumed" in result.output
    assert "at most 262,144 entries at one per 4,096 bytes: 2,097,152" in " ".join(result.output.split())


def test_largest_segment_says_at_which_interval_its_index_fills_first(run):
    result = run("--segment-bytes", 2**31 - 1, "--record-bytes", 100, "--rate", 1000)
    assert "index.interval.bytes has to be below 2,457 (.timeindex) or 1,638 (.index)" in " ".join(result.output.split())


def test_segments_beyond_five_gibibytes_get_the_correction(run):
    result = run("--segment-bytes", 6 << 30, "--record-bytes", 100, "--rate", 1000)
    assert result.exit_code == 0
    assert "segment.bytes is a signed 32-bit number" in " ".join(result.output.split())


def test_settings_of_the_topic_are_passed_by_kafkas_names(run, page_visits):
    document = json.loads(run(page_visits, "--json", "-X", "segment.bytes=8192", "-X", "retention.ms=-1").output)
    assert document["current"]["segment.bytes"] == 8192
    assert document["choices"][0]["roll"]["cause"] == "size"
    assert document["settings"][1] == {
        "name": "segment.bytes",
        "value": 8192,
        "reason": "At 73 bytes a second 8.0 KiB fill in 1.9 minutes, and retention.ms deletes nothing.",
    }


def test_longest_walk_and_lookups_by_time_choose_the_interval(run, page_visits):
    document = json.loads(run(page_visits, "--json", "--by-time", "--max-scan", 2000).output)
    assert document["settings"][0]["value"] == 1024


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a partition directory, or give --record-bytes and --rate"),
        (("--record-bytes", 100), "name a partition directory, or give --record-bytes and --rate"),
        (("--rate", 1), "name a partition directory, or give --record-bytes and --rate"),
        (("some-0", "--record-bytes", 100), "--record-bytes goes without DIR"),
        (("some-0", "--rate", 0), "--rate is above 0"),
        (("--record-bytes", 100, "--rate", 1, "--max-scan", -1), "--max-scan"),
        (("--record-bytes", "many", "--rate", 1), "--record-bytes"),
    ],
)
def test_wrong_figures_are_wrong_usage(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_segment_of_no_bytes_is_wrong_usage(run):
    result = run("--record-bytes", 100, "--rate", 1, "--segment-bytes", 0)
    assert result.exit_code == 2
    assert result.stderr == "milepost: --segment-bytes 0: a segment has at least one byte\n"


def test_directory_that_is_not_there_is_one_sentence(run, tmp_path):
    result = run(tmp_path / "none-0")
    assert result.exit_code == 3
    assert result.stderr == f"milepost: {tmp_path}/none-0: no such file or directory\n"
