"""Bounds: from what options say to offsets, against a transport that only knows numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import pytest

from milepost.errors import InvalidArgument, OffsetOutOfRange
from milepost.spark.bounds import batch_ranges, offsets_from_json, offsets_to_json, starting_offsets
from milepost.spark.offset_range import OffsetRange, divide, ranges_between, spread_limit
from milepost.spark.options import SourceOptions
from milepost.spark.subscription import Subscription
from milepost.spark.transport import Split, Transport
from milepost.topic_partition import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW = 1_000_000


class Numbers(Transport):
    """Two partitions: t-0 holds 10 to 99, t-1 holds 0 to 49; the record at offset n has the time 1000 * n."""

    first: Mapping[TopicPartition, int] = {T0: 10, T1: 0}
    behind: Mapping[TopicPartition, int] = {T0: 100, T1: 50}

    def partitions(self, subscription: Subscription) -> list[TopicPartition]:
        return subscription.chosen(self.first)

    def remaining(self, subscription: Subscription) -> list[TopicPartition]:
        return self.partitions(subscription)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.first[each] for each in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.behind[each] for each in partitions}

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = {each: max(self.first[each], -(-time // 1000)) for each, time in times.items()}
        return {each: offset if offset < self.behind[each] else None for each, offset in found.items()}

    def bytes_between(self, ranges: Sequence[OffsetRange]) -> int:
        return sum(each.size for each in ranges)

    def limit_bytes(self, ranges: Sequence[OffsetRange], max_bytes: int) -> dict[TopicPartition, int]:
        return spread_limit(ranges, max_bytes)

    def plan(self, ranges: Sequence[OffsetRange]) -> list[Split]:
        return []


def ranges(**options: str) -> list[tuple[int, int, int]]:
    parsed = SourceOptions.parse({"path": "x", "subscribe": "t", **options}, streaming=False)
    return [(each.partition.partition, each.start, each.end) for each in batch_ranges(parsed, Numbers(), NOW)]


def test_everything_by_default() -> None:
    assert ranges() == [(0, 10, 100), (1, 0, 50)]


def test_offsets_as_given_with_earliest_and_latest_as_numbers() -> None:
    found = ranges(startingOffsets='{"t":{"0":-2,"1":7}}', endingOffsets='{"t":{"0":20,"1":-1}}')
    assert found == [(0, 10, 20), (1, 7, 50)]


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"])
@pytest.mark.parametrize(
    ("offsets", "match"),
    [
        ({"0": 20}, "must name exactly the partitions that are read: t-1 missing"),
        ({"0": 20, "1": 20, "2": 20}, "t-2 not subscribed to"),
        ({"1": 20, "2": 20}, "t-0 missing and t-2 not subscribed to"),
    ],
)
def test_map_names_exactly_the_partitions_that_are_read(name: str, offsets: dict[str, int], match: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name} {match}" if match.startswith("must") else match):
        ranges(**{name: json.dumps({"t": offsets})})


def test_start_and_end_name_the_same_partitions() -> None:
    with pytest.raises(InvalidArgument, match="startingOffsets and endingOffsets name different partitions: t-1"):
        ranges(startingOffsets='{"t":{"0":20,"1":1}}', endingOffsets='{"t":{"0":30}}')


def test_start_behind_the_end_is_an_error() -> None:
    with pytest.raises(
        InvalidArgument, match=r"t-0: the query starts at offset 30 \(startingOffsets\) and ends at 20 \(endingOffsets\)"
    ):
        ranges(startingOffsets='{"t":{"0":30,"1":0}}', endingOffsets='{"t":{"0":20,"1":5}}')
    with pytest.raises(InvalidArgument, match="the start may not lie behind the end"):
        ranges(startingTimestamp="30000", endingTimestamp="20000")


def test_times_become_the_first_offset_that_is_not_older() -> None:
    assert ranges(startingTimestamp="20001", endingTimestamp="30000") == [(0, 21, 30), (1, 21, 30)]
    assert ranges(startingOffsetsByTimestamp='{"t":{"0":20000,"1":48500}}') == [(0, 20, 100), (1, 49, 50)]


def test_start_that_no_record_is_as_new_as_is_an_error_or_the_end() -> None:
    with pytest.raises(InvalidArgument, match=r"t-1: no record is as new as 60000 \(startingTimestamp\).*Strategy=latest"):
        ranges(startingTimestamp="60000")
    assert ranges(startingTimestamp="60000", startingOffsetsByTimestampStrategy="latest") == [(0, 60, 100)]


def test_end_that_no_record_is_as_new_as_is_the_end_of_the_log() -> None:
    assert ranges(endingTimestamp="60000") == [(0, 10, 60), (1, 0, 50)]


def test_time_back_from_now_and_the_last_offsets() -> None:
    assert ranges(startingOffsets="-960s") == [(0, 40, 100), (1, 40, 50)]
    assert ranges(startingOffsets="-1ms") == []
    assert ranges(startingOffsets="last 60") == [(0, 40, 100), (1, 0, 50)]


def test_offsets_that_are_gone_are_data_loss(caplog: pytest.LogCaptureFixture) -> None:
    gone = '{"t":{"0":3,"1":0}}'
    with pytest.raises(
        OffsetOutOfRange, match=r"data loss: t-0: offsets 3 to 99 .* the log holds 10 to 99\. .* failOnDataLoss to false"
    ):
        ranges(startingOffsets=gone)
    assert ranges(startingOffsets=gone, failOnDataLoss="false") == [(0, 10, 100), (1, 0, 50)]
    assert "data loss: t-0" in caplog.text


def test_offsets_that_are_not_there_yet_are_data_loss() -> None:
    with pytest.raises(OffsetOutOfRange, match="offsets 10 to 199 are asked for"):
        ranges(endingOffsets='{"t":{"0":200,"1":-1}}')
    assert ranges(endingOffsets='{"t":{"0":200,"1":-1}}', failOnDataLoss="false") == [(0, 10, 100), (1, 0, 50)]
    assert ranges(startingOffsets='{"t":{"0":150,"1":0}}', endingOffsets='{"t":{"0":200,"1":9}}', failOnDataLoss="false") == [
        (1, 0, 9)
    ]


def test_stream_begins_where_it_is_told() -> None:
    def begin(**options: str) -> dict[TopicPartition, int]:
        parsed = SourceOptions.parse({"path": "x", "subscribe": "t", **options}, streaming=True)
        return starting_offsets(parsed, Numbers(), [T0, T1], NOW)

    assert begin() == {T0: 100, T1: 50}
    assert begin(startingOffsets="earliest") == {T0: 10, T1: 0}
    assert begin(startingOffsets='{"t":{"0":-1,"1":-2}}') == {T0: 100, T1: 0}
    assert begin(startingTimestamp="45000") == {T0: 45, T1: 45}
    with pytest.raises(OffsetOutOfRange, match="t-0: startingOffsets says 5, and the log holds 10 to 99"):
        begin(startingOffsets='{"t":{"0":5,"1":0}}')
    assert begin(startingOffsets='{"t":{"0":5,"1":0}}', failOnDataLoss="false") == {T0: 10, T1: 0}


def test_offsets_are_kept_in_the_connectors_json() -> None:
    offsets = {T1: 7, T0: 3, TopicPartition("a", 12): 0}
    assert offsets_to_json(offsets) == {"a": {"12": 0}, "t": {"0": 3, "1": 7}}
    assert offsets_from_json(offsets_to_json(offsets)) == offsets


# Dividing, by the connector's rules.


def sizes(*wanted: int, **limits: int) -> list[tuple[int, int, int]]:
    whole = [OffsetRange(TopicPartition("t", number), 0, size) for number, size in enumerate(wanted)]
    return [(each.partition.partition, each.start, each.end) for each in divide(whole, **limits)]


def test_ranges_stay_whole_without_limits_and_empty_ones_go() -> None:
    assert sizes(5, 0, 3) == [(0, 0, 5), (2, 0, 3)]


def test_enough_partitions_are_not_divided() -> None:
    assert sizes(5, 3, min_partitions=2) == [(0, 0, 5), (1, 0, 3)]


def test_one_range_is_divided_evenly() -> None:
    assert sizes(100, min_partitions=3) == [(0, 0, 33), (0, 33, 66), (0, 66, 100)]


def test_small_ranges_stay_whole_and_large_ones_share_the_rest() -> None:
    assert sizes(10, 100, min_partitions=5) == [(0, 0, 10), (1, 0, 25), (1, 25, 50), (1, 50, 75), (1, 75, 100)]


@pytest.mark.parametrize("wanted", [(100, 100, 100), (10, 33, 57), (999, 1), (50, 50, 50, 50, 13)])
@pytest.mark.parametrize("least", [6, 7, 11, 13])
def test_no_task_is_missing_of_those_that_were_asked_for(wanted: tuple[int, ...], least: int) -> None:
    pieces = sizes(*wanted, min_partitions=least)
    assert len(pieces) == least
    assert sum(end - start for _, start, end in pieces) == sum(wanted)


def test_no_piece_is_larger_than_the_most_records() -> None:
    assert sizes(7, 3, max_records=3) == [(0, 0, 2), (0, 2, 4), (0, 4, 7), (1, 0, 3)]


def test_finer_of_two_limits_wins() -> None:
    assert len(sizes(100, max_records=50, min_partitions=10)) == 10
    assert len(sizes(100, max_records=5, min_partitions=10)) == 20


def test_limit_is_shared_by_backlog_and_starves_nobody() -> None:
    ranges = [OffsetRange(T0, 0, 900), OffsetRange(T1, 10, 110), OffsetRange(TopicPartition("t", 2), 0, 0)]
    assert spread_limit(ranges, 100) == {T0: 90, T1: 20, TopicPartition("t", 2): 0}
    assert spread_limit(ranges, 5) == {T0: 4, T1: 11, TopicPartition("t", 2): 0}
    assert spread_limit(ranges, 10_000) == {T0: 900, T1: 110, TopicPartition("t", 2): 0}


def test_ranges_between_starts_and_ends() -> None:
    assert ranges_between({T0: 3, T1: 5}, {T0: 3, T1: 9, TopicPartition("u", 0): 4}) == [OffsetRange(T1, 5, 9)]
