"""Tuning: the sparse rule replayed equals what Kafka wrote, walks equal real lookups, and the forecasts of the articles (corrected)."""

from __future__ import annotations

import json

import pytest

from milepost import LogConfig, Record, open_log
from milepost.clock import ManualClock
from milepost.errors import InvalidArgument
from milepost.inspect.amounts import bytes_text, duration_text
from milepost.inspect.explain.explain_text import WIDTH, sections_as_lines
from milepost.inspect.tune.density import Density, SegmentBatches, batches_of, densities, replay
from milepost.inspect.tune.forecast import filling_interval, forecast, index_room, most_entries
from milepost.inspect.tune.tune import INTERVALS, Need, possible_segment_bytes, tune_figures, tune_log, tuning_as_json
from milepost.inspect.tune.tune_text import tuning_as_text
from milepost.inspect.tune.workload import assumed_workload
from milepost.segment.trace import LogScan
from tests.golden_fixture import all_partitions

GIB = 1 << 30
LARGEST = 2**31 - 1


def equal_batches(number, size, records=1):
    batches = SegmentBatches(0)
    for n in range(number):
        batches.add((n + 1) * records - 1, n * size, size, 1000 * n)
    return batches


# The rule.


@pytest.mark.parametrize(
    ("size", "positions"),
    [(1500, [4500, 9000, 13500, 18000]), (4096, [8192, 16384, 24576, 32768, 40960, 49152]), (4097, list(range(4097, 4097 * 13, 4097)))],
)
def test_entry_comes_after_more_than_the_interval(size, positions):
    assert replay(equal_batches(13, size), 4096).positions == positions


def test_interval_zero_gives_every_batch_but_the_first_an_entry():
    assert replay(equal_batches(4, 100), 0).offsets == [1, 2, 3]


@pytest.mark.parametrize(("case", "partition"), list(all_partitions("page_visits")))
def test_replay_at_the_topics_interval_gives_the_entries_that_kafka_wrote(case, partition, golden):
    segments = {segment["baseOffset"]: segment for segment in golden.expected(case, partition)["segments"]}
    with open_log(str(golden.partition(case, partition))) as log:
        for segment in log.segments:
            entries = replay(batches_of(segment), 512)
            expected = segments[segment.base_offset]
            assert [list(pair) for pair in zip(entries.offsets, entries.positions, strict=True)] == expected["index"]
            times = [list(pair) for pair in zip(entries.timestamps, entries.time_offsets, strict=True)]
            if "2.4.1" in case:
                # 2.4.1 names the record itself and not the last one of its batch.
                assert [time for time, _ in times] == [time for time, _ in expected["timeindex"]]
            else:
                assert times == expected["timeindex"]


# The walks.


def walked(steps):
    return next(step.bytes_skipped for step in reversed(steps) if isinstance(step, LogScan))


@pytest.mark.parametrize("partition", ["page_visits-0", "page_visits-3"])
def test_walks_by_offset_are_those_of_real_lookups(golden, partition):
    with open_log(str(golden.partition("page_visits/kafka-3.9.1", partition))) as log:
        (density,) = densities(map(batches_of, log.segments), [512])
        walks = [walked(log.explain(offset=offset)[1]) for offset in range(log.end_offset)]
    assert density.by_offset.lookups == len(walks)
    assert density.by_offset.total == sum(walks)
    assert density.by_offset.worst == max(walks)


@pytest.mark.parametrize(
    ("case", "partition"), [("page_visits/kafka-3.9.1", "page_visits-3"), ("edges/kafka-3.9.1", "out-of-order-0")]
)
def test_walks_by_time_are_those_of_real_lookups(golden, case_json, case, partition):
    config = case_json(case)["topics"][partition.rpartition("-")[0]]["config"]
    with open_log(str(golden.partition(case, partition))) as log:
        (density,) = densities(map(batches_of, log.segments), [int(config.get("index.interval.bytes", 4096))])
        newest, walks = -1, []
        for segment in log.segments:
            for place in segment.log.positions():
                if place.max_timestamp > newest:
                    walks.append(walked(log.explain(time=newest + 1)[1]))
                    newest = place.max_timestamp
    assert (density.by_time.total, density.by_time.lookups, density.by_time.worst) == (sum(walks), len(walks), max(walks))


def test_last_offset_of_an_indexed_batch_is_found_without_a_walk():
    density = Density(0)
    density.add_segment(equal_batches(3, 100, records=4))
    # Batch 0: four lookups of 0 bytes; batches 1 and 2: three of 100 bytes from the entry before, one of 0.
    assert (density.by_offset.total, density.by_offset.lookups, density.by_offset.worst) == (600, 12, 100)


# Room and rolls.


def test_one_gibibyte_at_4096_has_262144_entries_and_two_mebibytes_of_index():
    assert most_entries(GIB, 4096) == 262_144
    assert most_entries(GIB, 4096) * 8 == 2 << 20


def test_ten_mebibytes_hold_1310720_offset_entries_and_873812_time_entries():
    assert index_room(10_485_760) == (1_310_720, 873_812)


def test_67_bytes_hold_8_offset_entries_and_4_time_entries():
    assert index_room(67) == (8, 4)


def test_in_the_largest_segment_the_index_fills_first_below_1638_and_the_time_index_below_2457():
    assert filling_interval(LARGEST, 10_485_760) == (1638, 2457)


@pytest.mark.parametrize(
    ("config", "interval", "cause"),
    [
        ({}, 4096, "size"),
        ({"segment.bytes": LARGEST}, 4096, "size"),
        ({"segment.bytes": LARGEST}, 2048, ".timeindex"),
        ({"segment.index.bytes": 1 << 20}, 4096, ".timeindex"),
        ({"segment.ms": 60_000}, 4096, "time"),
        ({"cleanup.policy": "compact", "max.compaction.lag.ms": 60_000}, 4096, "time"),
    ],
)
def test_smallest_of_four_sizes_ends_the_segment(config, interval, cause):
    # 161-byte batches, 16,100 bytes a second.
    parsed = LogConfig.parse(config)
    tuning = tune_figures(100, 100, parsed)
    assert next(choice.roll.cause for choice in tuning.choices if choice.interval == interval) == cause


def test_index_ends_a_segment_before_the_time_index_when_timestamps_stand_still():
    workload = assumed_workload(100, 100, GIB)
    still = Density(512, entries=1_600_000, time_entries=1)
    assert forecast(still, workload, LogConfig()).cause == ".index"


def test_roll_of_the_time_index_is_forecast_in_bytes_and_time():
    # 161-byte batches at 512: an entry every 4 batches, 644 bytes. 873,812 of them are 562,734,928 bytes of log.
    roll = tune_figures(100, 100, LogConfig()).choices[0].roll
    assert roll.cause == ".timeindex"
    assert roll.size == pytest.approx(562_734_928, rel=1e-5)
    assert roll.after_ms == pytest.approx(562_734_928 / 16_100 * 1000, rel=1e-5)


# From figures alone.


@pytest.mark.parametrize(
    ("record_bytes", "rate", "assumed"),
    [
        (100, 10, "Batches of one record, 161 bytes"),
        (100, 1000, "Batches of 5 records, 561 bytes"),
        (100, 1_000_000, "Batches of 163 records, 16,361 bytes"),
        (50_000, 1000, "Batches of one record, 50,061 bytes"),
    ],
)
def test_batches_are_assumed_and_said(record_bytes, rate, assumed):
    assert tune_figures(record_bytes, rate, LogConfig()).workload.assumption.startswith(assumed)


def test_figures_of_a_full_segment_are_exact():
    # 1 GiB holds 6,669,203 batches of 161 bytes; at 4096 every 26th has an entry.
    choice = next(choice for choice in tune_figures(100, 100, LogConfig()).choices if choice.interval == 4096)
    assert (choice.entries, choice.index_bytes, choice.time_index_bytes) == (256_507, 2_052_056, 3_078_096)
    assert choice.by_offset_worst == 25 * 161


def test_segment_beyond_two_gibibytes_is_refused_with_the_correction():
    size, note = possible_segment_bytes(6 * GIB)
    assert size == 2_147_483_647
    assert note == (
        "Segments of 6,442,450,944 bytes cannot exist: segment.bytes is a signed 32-bit number, so 2,147,483,647 is the most, and "
        "what is used here. If they could, with an entry every 4,096 bytes an .index of 10 MiB would be full after 5.00 GiB and a "
        ".timeindex after 3.33 GiB."
    )


def test_segment_that_can_exist_needs_no_note():
    assert possible_segment_bytes(LARGEST) == (LARGEST, "")


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (1, -5)])
def test_figures_that_describe_nothing_are_refused(arguments):
    with pytest.raises(InvalidArgument, match="at least one byte"):
        tune_figures(*arguments, LogConfig())


def test_batch_larger_than_a_segment_is_refused():
    with pytest.raises(InvalidArgument, match="a batch of 5061 bytes does not fit a segment of 4096"):
        tune_figures(5000, 1, LogConfig.parse({"segment.bytes": 4096}))


# The settings.


def settings_of(tuning):
    return {setting.name: setting.value for setting in tuning.settings}


def test_default_interval_is_kept_unless_something_speaks_against_it():
    assert settings_of(tune_figures(100, 1000, LogConfig()))["index.interval.bytes"] == 4096


@pytest.mark.parametrize(("record_bytes", "interval"), [(100, 1024), (600, 2048), (20_000, 4096)])
def test_small_records_looked_up_by_time_get_a_smaller_interval(record_bytes, interval):
    assert settings_of(tune_figures(record_bytes, 100, LogConfig(), Need(by_time=True)))["index.interval.bytes"] == interval


def test_longest_walk_asked_for_chooses_the_interval():
    tuning = tune_figures(200, 20, LogConfig(), Need(max_scan=1024))
    assert settings_of(tuning)["index.interval.bytes"] == 1024
    assert tuning.settings[0].reason == "It is the largest whose longest walk, 783 bytes, keeps to the 1.0 KiB asked for."


def test_walk_that_no_interval_can_keep_to_says_what_would_help():
    tuning = tune_figures(20_000, 20, LogConfig(), Need(by_time=True, max_scan=1024))
    assert settings_of(tuning)["index.interval.bytes"] == 512
    assert tuning.settings[0].reason.endswith("more than 1.0 KiB: only smaller batches would help.")


def test_slow_log_gets_smaller_segments_that_time_ends_with_jitter():
    settings = settings_of(tune_figures(100, 1, LogConfig()))
    assert settings["segment.bytes"] == 16 << 20
    assert settings["segment.ms"] == 86_400_000
    assert settings["segment.jitter.ms"] == 8_640_000


def test_fast_log_keeps_its_segments_and_needs_no_jitter():
    settings = settings_of(tune_figures(1000, 10_000, LogConfig()))
    assert (settings["segment.bytes"], settings["segment.ms"], settings["segment.jitter.ms"]) == (GIB, 604_800_000, 0)


def test_tiny_segments_of_a_fast_log_are_made_larger():
    settings = settings_of(tune_figures(1000, 1000, LogConfig.parse({"segment.bytes": 1 << 20})))
    assert settings["segment.bytes"] == GIB


def test_log_that_is_kept_for_ever_has_no_reason_for_smaller_segments():
    settings = settings_of(tune_figures(100, 1, LogConfig.parse({"retention.ms": -1})))
    assert (settings["segment.bytes"], settings["segment.ms"]) == (GIB, 604_800_000)


def test_index_that_would_end_the_segment_is_made_larger():
    # 2 GiB at an interval of 1024: 2,097,151 time entries of 12 bytes, 24 MiB and a little.
    tuning = tune_figures(100, 100_000, LogConfig.parse({"segment.bytes": LARGEST}), Need(max_scan=1100))
    assert settings_of(tuning)["index.interval.bytes"] == 512
    assert settings_of(tuning)["segment.index.bytes"] % (1 << 20) == 0
    room = index_room(settings_of(tuning)["segment.index.bytes"])[1]
    assert room > tuning.choices[0].entries


def test_every_setting_has_one_sentence():
    for setting in tune_figures(100, 1, LogConfig()).settings:
        assert setting.reason.endswith(".")
        assert setting.reason[0].isupper()


# From a log.


@pytest.fixture
def page_visits(golden):
    with open_log(str(golden.partition("page_visits/kafka-3.9.1", "page_visits-3"))) as log:
        yield log


def test_log_is_measured_from_its_headers(page_visits):
    workload = tune_log(page_visits).workload
    # Sizes, offsets and times as Kafka's dump tool shows them.
    assert (workload.batches, workload.records, workload.size) == (35, 249, 16_854)
    assert (workload.smallest_batch, workload.largest_batch) == (118, 718)
    assert workload.assumption == ""


def test_table_at_512_is_what_lies_in_the_directory(page_visits, golden):
    choice = tune_log(page_visits).choices[0]
    directory = golden.partition("page_visits/kafka-3.9.1", "page_visits-3")
    assert choice.index_bytes == sum(path.stat().st_size for path in directory.glob("*.index"))
    assert choice.time_index_bytes == sum(path.stat().st_size for path in directory.glob("*.timeindex"))


def test_rate_given_replaces_the_one_of_the_timestamps(page_visits):
    assert tune_log(page_visits, records_per_second=249).workload.rate == 16_854


def test_log_without_two_timestamps_has_no_rate(tmp_path):
    with open_log(str(tmp_path / "still-0"), "a", clock=ManualClock(1_700_000_000_000)) as log:
        for _ in range(3):
            log.append([Record(0, 1_600_000_000_000, None, b"x")])
        tuning = tune_log(log)
    assert tuning.workload.rate is None
    assert "time" not in {choice.roll.cause for choice in tuning.choices}
    assert {choice.roll.after_ms for choice in tuning.choices} == {None}
    assert "How fast records arrive is not known" in tuning.settings[1].reason


def test_empty_log_is_refused_with_what_to_do(tmp_path):
    with open_log(str(tmp_path / "empty-0"), "a") as log, pytest.raises(InvalidArgument, match="give --record-bytes and --rate"):
        tune_log(log)


def test_text_keeps_to_the_width_of_a_terminal(page_visits):
    for tuning in (tune_log(page_visits), tune_figures(100, 1e6, LogConfig.parse({"segment.bytes": LARGEST}))):
        assert max(map(len, sections_as_lines(tuning_as_text(tuning)))) <= WIDTH


def test_json_has_its_documented_names(page_visits):
    document = json.loads(json.dumps(tuning_as_json(tune_log(page_visits))))
    assert list(document) == ["directory", "workload", "current", "choices", "settings", "notes"]
    assert [choice["interval"] for choice in document["choices"]] == list(INTERVALS)
    assert document["current"]["segment.index.bytes"] == 10_485_760
    assert document["choices"][0]["roll"].keys() == {"cause", "size", "after_ms"}


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (2 << 20, "2.0 MiB"), (1 << 50, "1,024.0 TiB")],
)
def test_bytes_are_said_in_units_of_1024(amount, text):
    assert bytes_text(amount) == text


@pytest.mark.parametrize(("ms", "text"), [(0, "0 ms"), (999, "999 ms"), (1000, "1.0 seconds"), (604_800_000, "7.0 days")])
def test_durations_are_said_in_the_largest_unit_that_fits(ms, text):
    assert duration_text(ms) == text
