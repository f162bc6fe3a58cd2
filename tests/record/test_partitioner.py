"""Keys go where Java's producer put them: the golden page_visits topic was written by it."""

from __future__ import annotations

import pytest

from milepost.errors import InvalidArgument
from milepost.record.partitioner import murmur2, partition_for
from tests.golden_fixture import all_cases


@pytest.mark.parametrize("case", all_cases("page_visits"))
def test_every_key_is_in_the_partition_that_javas_producer_chose(case, expected):
    checked = 0
    for partition in range(5):
        parsed = expected(case, f"page_visits-{partition}")
        key_column = parsed["recordColumns"].index("key")
        for segment in parsed["segments"]:
            for record in segment["records"]:
                assert partition_for(record[key_column].encode(), 5) == partition
                checked += 1
    assert checked > 1000


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        # The values of Kafka's own unit test of this hash.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hash_is_javas(key, signed):
    assert murmur2(key) == signed % 2**32


def test_topic_without_partitions_is_refused():
    with pytest.raises(InvalidArgument, match="at least one partition, not 0"):
        partition_for(b"key", 0)
