"""The worked examples of the articles, one by one: on our own index classes, and where Kafka wrote the very same entries, on those.

Where an article and today's Kafka differ, the test says so and holds Kafka's side.
"""

from __future__ import annotations

import pytest

from milepost import LogConfig, Record, build_batch, open_log
from milepost.clock import ManualClock
from milepost.errors import IndexOffsetOverflow, InvalidConfiguration
from milepost.files import Disk, HandlePool
from milepost.inspect.tune.forecast import filling_interval, index_room, most_entries
from milepost.record.partitioner import partition_for
from milepost.segment.offset_index import OffsetIndex, OffsetPosition
from milepost.segment.time_index import TimeIndex, TimestampOffset
from milepost.segment.trace import IndexSearch, LogScan, Trace
from tests.golden_fixture import all_cases

ENTRIES = [(6, 156), (14, 459), (22, 656), (26, 838), (31, 1050)]
VERSIONS = all_cases("articles")


@pytest.fixture
def offset_index(tmp_path):
    """`offset_index(base, entries)`: a real index file with these absolute offsets and positions."""

    def make(base, entries, max_bytes=10_485_760):
        index = OffsetIndex(HandlePool(Disk()), str(tmp_path / f"{base:020d}.index"), base, max_bytes)
        index.open_active()
        for offset, position in entries:
            index.append(offset, position)
        return index

    return make


@pytest.fixture
def time_index(tmp_path):
    def make(base, entries, max_bytes=10_485_760):
        index = TimeIndex(HandlePool(Disk()), str(tmp_path / f"{base:020d}.timeindex"), base, max_bytes)
        index.open_sealed(0)
        index.open_active()
        for timestamp, offset in entries:
            index.maybe_append(timestamp, offset)
        return index

    return make


def steps_of(log, kind, **question):
    return [step for step in log.explain(**question)[1] if isinstance(step, kind)]


# Finding offset 23: the entry (22, 656), then a walk.


def test_offset_23_starts_at_the_entry_22_at_byte_656(offset_index):
    assert offset_index(0, ENTRIES).lookup(23) == OffsetPosition(22, 656)


@pytest.mark.parametrize("case", VERSIONS)
def test_kafka_wrote_exactly_these_entries(golden, case):
    with open_log(str(golden.partition(case, "topic-log-0"))) as log:
        index = log.segments.first.offset_index
        assert [(index.entry(slot).offset, index.entry(slot).position) for slot in range(index.entries)] == ENTRIES


@pytest.mark.parametrize("case", VERSIONS)
def test_offset_23_is_walked_to_from_656_in_kafkas_file(golden, case):
    with open_log(str(golden.partition(case, "topic-log-0"))) as log:
        (search,) = steps_of(log, IndexSearch, offset=23)
        (scan,) = steps_of(log, LogScan, offset=23)
        assert (search.slot, search.entry) == (2, (22, 656))
        assert (scan.start_position, scan.position) == (656, 838)
        assert log.find(offset=23).offset == 23


def test_entry_on_disk_is_four_bytes_of_relative_offset_and_four_of_position(offset_index, tmp_path):
    index = offset_index(0, ENTRIES)
    index.seal()
    assert (tmp_path / "00000000000000000000.index").read_bytes()[16:24] == bytes.fromhex("00000016 00000290")


# Finding offset 268: first its segment, then the relative offset 17.


@pytest.mark.parametrize("case", VERSIONS)
def test_offset_268_is_relative_17_in_the_segment_251(golden, case):
    with open_log(str(golden.partition(case, "lookup-268-0"))) as log:
        assert log.segments.base_offsets() == [0, 251]
        (search,) = steps_of(log, IndexSearch, offset=268)
        assert search.file.endswith("/00000000000000000251.index")
        assert (search.target, search.entry) == (17, (13, 481))
        assert log.find(offset=268).segment == 251


@pytest.mark.parametrize(("base", "offset", "relative"), [(251, 268, 17), (32, 35, 3), (20, 25, 5)])
def test_relative_offset_is_offset_minus_base(offset_index, tmp_path, base, offset, relative):
    index = offset_index(base, [(offset, 4096)])
    trace = Trace()
    assert index.lookup(offset, trace) == OffsetPosition(offset, 4096)
    assert trace.steps[0].target == relative
    index.seal()
    assert (tmp_path / f"{base:020d}.index").read_bytes() == relative.to_bytes(4, "big") + (4096).to_bytes(4, "big")


def test_segment_with_base_offset_32_is_named_by_it(tmp_path):
    with open_log(str(tmp_path / "topic-0"), "a", {"segment.bytes": 200}, clock=ManualClock(0)) as log:
        log.append([Record(0, 1, None, b"%d" % n) for n in range(32)][:16])
        log.append([Record(0, 1, None, b"%d" % n) for n in range(16)])
        log.roll()
        log.append([Record(0, 1, None, b"x")])
    assert (tmp_path / "topic-0" / "00000000000000000032.log").exists()


# Finding offset 7 in the picture of 2015: the entry (6, 9807).


@pytest.mark.parametrize("case", VERSIONS)
def test_offset_7_starts_at_the_entry_6_at_byte_9807(golden, case):
    with open_log(str(golden.partition(case, "lookup-7-0"))) as log:
        (search,) = steps_of(log, IndexSearch, offset=7)
        (scan,) = steps_of(log, LogScan, offset=7)
        assert search.entry == (6, 9807)
        assert scan.start_position == 9807
        assert log.find(offset=7).offset == 7


# Finding time 1526384718288: the time index, then the offset index, then a walk.


def test_time_1526384718288_goes_over_28_to_the_entry_26_at_byte_838(time_index, offset_index):
    times = time_index(0, [(1526384718000, 14), (1526384718283, 28), (1526384718289, 31)])
    found = times.lookup(1526384718288)
    assert found == TimestampOffset(1526384718283, 28)
    assert offset_index(0, ENTRIES).lookup(found.offset) == OffsetPosition(26, 838)


def test_time_entry_on_disk_is_eight_bytes_of_time_and_four_of_relative_offset(time_index, tmp_path):
    index = time_index(0, [(1526384718283, 28)])
    index.seal()
    assert (tmp_path / "00000000000000000000.timeindex").read_bytes() == bytes.fromhex("00000163639e71cb 0000001c")


def test_whole_lookup_by_time_in_a_log_with_the_articles_entries(tmp_path):
    """Kafka 2.x named the record itself in a time entry: 28, the newest of the batch 27-31, although the offset entry says 31."""
    batches = [(range(3), 156), (range(3, 7), 303), (range(7, 15), 197), (range(15, 23), 182), (range(23, 27), 212), (range(27, 32), 190)]
    config = {"index.interval.bytes": 100, "index.profile": "per-append"}
    with open_log(str(tmp_path / "topic-log-0"), "a", config, clock=ManualClock(0)) as log:
        for offsets, size in batches:
            log.append(batch_of([1526384718283 if offset == 28 else 1526384718000 + offset for offset in offsets], size))
        log.append(batch_of([1526384718287, 1526384718288, 1526384718289], 100))
        time_search, offset_search = steps_of(log, IndexSearch, time=1526384718288)
        (scan,) = steps_of(log, LogScan, time=1526384718288)
        found = log.find(time=1526384718288)
    assert time_search.entry == (1526384718283, 28)
    assert (offset_search.target, offset_search.entry, offset_search.next_entry) == (28, (26, 838), (31, 1050))
    assert (scan.start_position, scan.position) == (838, 1240)
    assert (found.offset, found.timestamp) == (33, 1526384718288)


def batch_of(timestamps, size):
    """A batch of exactly `size` bytes: the values of the first and the last record are filled up."""
    last = len(timestamps) - 1
    for first_filling in range(size):
        for last_filling in range(2):
            filling = {last: last_filling, 0: first_filling}
            batch = build_batch([Record(n, time, None, b"x" * filling.get(n, 0)) for n, time in enumerate(timestamps)])
            if len(batch) == size:
                return batch
    raise AssertionError(f"no batch of {size} bytes with {len(timestamps)} records")


def test_segment_for_a_time_is_the_first_whose_largest_timestamp_is_not_smaller(golden):
    """One article takes the segments whose largest timestamp is smaller: it is the other way round."""
    with open_log(str(golden.partition("articles/kafka-3.9.1", "lookup-268-0"))) as log:
        first, second = log.segments
        assert (first.largest_timestamp, second.largest_timestamp) == (1700000002920, 1700000003310)
        assert log.find(time=1700000002920).segment == 0
        assert log.find(time=1700000002921).segment == 251


# The topic page_visits: five directories, each a row of segments.


@pytest.mark.parametrize("case", all_cases("page_visits"))
def test_topic_with_five_partitions_has_five_directories(golden, case):
    directories = sorted(path.name for path in (golden(case) / "logdir").iterdir() if path.is_dir())
    assert directories == ["page_visits-0", "page_visits-1", "page_visits-2", "page_visits-3", "page_visits-4"]


@pytest.mark.parametrize("case", all_cases("page_visits"))
def test_every_visit_lies_in_the_partition_of_its_key(golden, case):
    for partition in range(5):
        with open_log(str(golden.partition(case, f"page_visits-{partition}"))) as log:
            assert {partition_for(record.key, 5) for record in log.records()} == {partition}


def test_hundred_messages_in_five_segments_are_found_by_bisection(tmp_path):
    """Offsets 0-19, 20-39, 40-59, 60-79, 80-99, each part in a file named by its first offset."""
    with open_log(str(tmp_path / "hundred-0"), "a", clock=ManualClock(0)) as log:
        for start in range(0, 100, 20):
            if start:
                log.roll()
            for number in range(20):
                log.append([Record(0, 1_526_384_718_000 + start + number, None, b"message")])
        assert log.segments.base_offsets() == [0, 20, 40, 60, 80]
        assert [log.find(offset=offset).segment for offset in (0, 19, 20, 39, 40, 79, 80, 99)] == [0, 0, 20, 20, 40, 60, 80, 80]
    names = sorted(path.name for path in (tmp_path / "hundred-0").glob("*.log"))
    assert names == [f"{base:020d}.log" for base in (0, 20, 40, 60, 80)]


# Sizes.


def test_index_of_67_bytes_is_64_and_a_time_index_60(offset_index, time_index, tmp_path):
    offset_index(0, [], max_bytes=67)
    time_index(0, [], max_bytes=67)
    assert (tmp_path / "00000000000000000000.index").stat().st_size == 64
    assert (tmp_path / "00000000000000000000.timeindex").stat().st_size == 60


def test_active_index_has_its_full_size_and_a_rolled_one_that_of_its_entries(tmp_path):
    config = {"segment.index.bytes": 1000, "index.interval.bytes": 0}
    with open_log(str(tmp_path / "topic-0"), "a", config, clock=ManualClock(0)) as log:
        for number in range(4):
            log.append([Record(0, 1000 + number, None, b"x")])
        assert (tmp_path / "topic-0" / "00000000000000000000.index").stat().st_size == 1000
        assert (tmp_path / "topic-0" / "00000000000000000000.timeindex").stat().st_size == 996
        log.roll()
        assert (tmp_path / "topic-0" / "00000000000000000000.index").stat().st_size == 3 * 8
        assert (tmp_path / "topic-0" / "00000000000000000000.timeindex").stat().st_size == 3 * 12


def test_one_gibibyte_at_an_entry_per_4096_bytes_has_262144_entries_about_two_mebibytes():
    entries = most_entries(1 << 30, LogConfig().index_interval_bytes)
    assert (entries, entries * 8) == (262_144, 2 << 20)


def test_segments_above_five_gibibytes_would_fill_the_index_but_cannot_exist():
    """An article: above 5 GiB raise the index size, or the index ends the segment. True arithmetic, impossible segment."""
    entries, time_entries = index_room(LogConfig().segment_index_bytes)
    assert entries * 4096 == 5 << 30
    assert time_entries < entries
    with pytest.raises(InvalidConfiguration, match="from 14 to 2147483647"):
        LogConfig.parse({"segment.bytes": 5 << 30})
    # What can happen: in the largest segment there is, an interval below 2457 fills the time index first.
    assert filling_interval(2**31 - 1, LogConfig().segment_index_bytes) == (1638, 2457)


def test_time_index_is_full_one_entry_before_its_room_ends(time_index):
    index = time_index(0, [(1000 + n, n) for n in range(5)], max_bytes=80)
    assert (index.max_entries, index.entries, index.is_full) == (6, 5, True)


def test_offset_beyond_four_bytes_of_distance_starts_a_new_segment(tmp_path):
    first = build_batch([Record(0, 1, None, b"x")], base_offset=0, partition_leader_epoch=0)
    far = build_batch([Record(2**31, 2, None, b"x")], base_offset=2**31, partition_leader_epoch=0)
    with open_log(str(tmp_path / "far-0"), "a", clock=ManualClock(0)) as log:
        log.append_as_follower(first)
        log.append_as_follower(far)
        assert log.segments.base_offsets() == [0, 2**31]


def test_offset_index_refuses_what_does_not_fit_four_bytes(offset_index):
    with pytest.raises(IndexOffsetOverflow, match="does not fit four bytes relative to base 0"):
        offset_index(0, [(2**31, 0)])
