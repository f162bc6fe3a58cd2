"""One value of an option, read: flags, numbers, durations, sizes, and JSON that names partitions.

    true · false                        flags, as the connector takes them
    500ms · 10s · 5m · 5min · 2h · 1d   durations; a bare number is milliseconds
    64m · 1g · 4096 · 512k              sizes in bytes, in steps of 1024
    {"page_visits":{"0":23,"1":-2}}     a number per partition; for times also a text, such as "2018-05-15T11:45:18Z"
    {"page_visits":[0,1]}               partitions

Every mistake is an InvalidArgument that names the option and what it was given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from milepost.errors import InvalidArgument
from milepost.topic_partition import TopicPartition

MILLISECONDS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
AMOUNT = re.compile(r"(\d+)\s*([a-z]*)")


class OptionMap(Mapping[str, str]):
    """Options by name, whatever their case: Spark's own maps forget it."""

    def __init__(self, options: Mapping[str, str]):
        self._values = {name.lower(): str(value) for name, value in options.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise InvalidArgument(f"{name} is {text!r}; true or false is possible")
    return text.strip().lower() == "true"


def choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """One of the values, written in any case; the first is the default."""
    text = options.get(name, values[0]).strip()
    for value in values:
        if value.lower() == text.lower():
            return value
    raise InvalidArgument(f"{name} is {text!r}; {', '.join(values[:-1])} or {values[-1]} is possible")


def number(options: Mapping[str, str], name: str, minimum: int = 1) -> int | None:
    text = options.get(name)
    return None if text is None else parse_number(text, name, minimum)


def parse_number(text: str, name: str, minimum: int) -> int:
    try:
        value = int(text.strip())
    except ValueError:
        raise InvalidArgument(f"{name} is {text!r}; a whole number is expected") from None
    if value < minimum:
        raise InvalidArgument(f"{name} is {value}; {minimum} is the least")
    return value


def duration_ms(text: str, name: str) -> int:
    return _amount(text, name, MILLISECONDS, "a duration such as 500ms, 10s, 15m, 2h or 1d")


def size(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    value = _amount(text, name, SIZES, "a size such as 4096, 512k, 64m or 1g")
    if value < 1:
        raise InvalidArgument(f"{name} is {text!r}; one byte is the least")
    return value


def _amount(text: str, name: str, units: Mapping[str, int], expected: str) -> int:
    found = AMOUNT.fullmatch(text.strip().lower())
    if found is None or found[2] not in units:
        raise InvalidArgument(f"{name} is {text!r}; {expected} is expected")
    return int(found[1]) * units[found[2]]


def partition_numbers(text: str, name: str) -> dict[TopicPartition, int]:
    """A number for each partition: offsets."""
    found: dict[TopicPartition, int] = {}
    for partition, value in _by_partition(text, name):
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidArgument(
                f"{name}: {partition.topic}, partition {partition.partition} has {value!r}; a whole number is expected"
            )
        found[partition] = value
    return found


def partition_times(text: str, name: str) -> dict[TopicPartition, str]:
    """A time for each partition, as it was written: a number, or text."""
    found: dict[TopicPartition, str] = {}
    for partition, value in _by_partition(text, name):
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise InvalidArgument(
                f"{name}: {partition.topic}, partition {partition.partition} has {value!r}; a time is expected, as a whole number "
                "or as text"
            )
        found[partition] = str(value)
    return found


def _by_partition(text: str, name: str) -> Iterator[tuple[TopicPartition, object]]:
    for topic, values in _json_object(text, name).items():
        if not isinstance(values, dict):
            raise InvalidArgument(f'{name}: {topic} has {values!r}; a number per partition is expected, such as {{"0":23}}')
        for partition, value in values.items():
            yield TopicPartition(topic, _partition(partition, topic, name)), value


def partition_list(text: str, name: str) -> tuple[TopicPartition, ...]:
    found = []
    for topic, partitions in _json_object(text, name).items():
        if not isinstance(partitions, list):
            raise InvalidArgument(f"{name}: {topic} has {partitions!r}; a list of partitions is expected, such as [0,1]")
        found += [TopicPartition(topic, _partition(partition, topic, name)) for partition in partitions]
    return tuple(sorted(set(found)))


def _partition(value: object, topic: str, name: str) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise InvalidArgument(f"{name}: {topic} has the partition {value!r}; partitions count from 0")
    return int(text)


def _json_object(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"{name} is {text!r}; JSON by topic is expected, and it does not parse: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArgument(f'{name} is {text!r}; JSON by topic is expected, such as {{"page_visits":…}}')
    return value
