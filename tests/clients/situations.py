"""What every client is put through, and what it sees of a broker that behaves as Kafka does.

The list is the same for all of them, so that the columns of docs/compatibility.md can be compared. A client that is a Python
library has tests of its own, marked with what they cover. A client of another language is a program that goes through the
list and prints one line `what=seen` for each thing that it did; what it should have seen is here, once. Kafka 4.3.0 was
asked by the same programs and gave the same answers (`test_kafka_itself.py` asks it again).

Whoever leaves a situation out says why, in `LACKS` of its test file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from milepost.codec.compression import Codec

CODECS = {codec.name.lower(): codec for codec in Codec}
HEADERS = "keys, headers, null values"
TIMESTAMPS = "timestamps set by the producer"
LARGE = "a message of 900 kB"
TOO_LARGE = "a message above `max.message.bytes` is refused"
OFFSETS_BY_TIME = "offsets by time"
CLASSIC_GROUP = "classic group: two members share, one leaves"
CONSUMER_PROTOCOL = "consumer protocol (KIP-848): two members share, one leaves"
RESUME = "commit, and resume in another consumer"
IDEMPOTENCE = "idempotent producer"
TRANSACTIONS = "transactions: commit, abort, read_committed"
OFFSETS_IN_TRANSACTIONS = "offsets in a transaction"
FENCING = "a second producer of the same transactional id fences the first"
TOPICS = "topics: create, add partitions, configure, delete"
DELETE_RECORDS = "records deleted up to an offset"
GROUPS = "groups: list, describe"
GROUP_OFFSETS = "groups: change offsets"
DELETE_GROUPS = "groups: delete"

SEEN: dict[str, dict[str, str]] = {
    **{f"codec {codec}": {f"codec {codec}": "200 in order"} for codec in CODECS},
    # The second record has a null value and no headers.
    HEADERS: {"record 0": "key value [trace:abc empty:]", "record 1": "gone null []"},
    TIMESTAMPS: {"timestamps": "1500000000123 1500000000124"},
    # 10 is MESSAGE_TOO_LARGE.
    LARGE: {"900 kB": "900000"},
    TOO_LARGE: {"2 MB": "error 10"},
    # Ten records, a second apart.
    OFFSETS_BY_TIME: {"at 3500": "4", "at 9001": "none", "ends": "0 10"},
    # Partitions of two members: the first alone, both, the second gone.
    CLASSIC_GROUP: {"classic alone": "4", "classic together": "2 2", "classic left": "4"},
    CONSUMER_PROTOCOL: {
        "consumer alone": "4",
        "consumer together": "2 2",
        "consumer left": "4",
    },
    # Four records of six and a commit; the rest in another consumer.
    RESUME: {"first reader": "0 1 2 3", "second reader": "4 5"},
    IDEMPOTENCE: {"idempotent": "1000 in order"},
    # Three transactions, the second aborted.
    TRANSACTIONS: {"committed": "first third", "uncommitted": "first lost third"},
    # Two offsets in a transaction that commits, two more in one that aborts.
    OFFSETS_IN_TRANSACTIONS: {"offset after commit": "2", "offset after abort": "2"},
    FENCING: {"fenced": "true"},
    TOPICS: {
        "partitions": "3",
        "retention": "7000000",
        "topic after deletion": "false",
    },
    DELETE_RECORDS: {"low watermark": "3", "first record": "3"},
    GROUPS: {"group listed": "true", "group described": "Stable 1"},
    GROUP_OFFSETS: {"group offset": "1"},
    DELETE_GROUPS: {"group after deletion": "false"},
}

Test = TypeVar("Test", bound=Callable[..., object])


def covers(*situations: str) -> Callable[[Test], Test]:
    """Marks a test with what it covers; `{name}` stands for the test's parameter of that name."""

    def mark(test: Test) -> Test:
        test.__dict__["covers"] = situations
        return test

    return mark


def covered_by(test: object, parameters: Mapping[str, object]) -> list[str]:
    """What one case of a test covers."""
    marked: Iterable[str] = getattr(test, "covers", ())
    return [situation.format(**parameters) for situation in marked]
