"""Levels of loggers (type 8): DescribeConfigs and IncrementalAlterConfigs. Codes are those of Kafka 4.3.0."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.broker.settings import APPEND, DELETE, SET, alter, configs, describe, replace

LOGGER = 8


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Whatever a test does to the loggers is undone."""
    names = ("milepost.net", "milepost.broker")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def level(wire, name: str) -> str:
    (found,) = describe(wire, LOGGER, "0", name).configs
    assert (found.config_source, found.config_type, found.read_only, found.synonyms) == (6, 0, False, [])
    return found.value


def test_every_logger_of_the_program_is_described_and_the_root(wire):
    names = set(configs(wire, LOGGER, "0"))
    assert {"root", "milepost", "milepost.broker", "milepost.log", "milepost.net"} <= names
    assert all(name == "root" or name.startswith("milepost") for name in names)


@pytest.mark.parametrize(
    ("name", "number"), [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)]
)
def test_a_level_holds_at_once_until_it_is_taken_away(wire, name, number):
    before = level(wire, "milepost.net")
    assert alter(wire, LOGGER, "0", ("milepost.net", SET, name)) == (0, None)
    assert (logging.getLogger("milepost.net").level, level(wire, "milepost.net")) == (number, name)
    assert alter(wire, LOGGER, "0", ("milepost.net", DELETE, None)) == (0, None)
    assert (logging.getLogger("milepost.net").level, level(wire, "milepost.net")) == (0, before)


def test_a_level_that_is_only_checked_is_not_set(wire):
    before = level(wire, "milepost.net")
    assert alter(wire, LOGGER, "0", ("milepost.net", SET, "TRACE"), validate_only=True) == (0, None)
    assert level(wire, "milepost.net") == before


@pytest.mark.parametrize(
    ("node", "operation", "code"),
    [
        ("0", ("nope", SET, "DEBUG"), 40),
        ("0", ("milepost.net", SET, "LOUD"), 40),
        ("0", ("nope", DELETE, None), 40),
        ("0", ("root", DELETE, None), 42),
        ("0", ("milepost.net", SET, None), 42),
        ("0", ("milepost.net", APPEND, "DEBUG"), 42),
        ("1", ("milepost.net", SET, "DEBUG"), 42),
        ("", ("milepost.net", SET, "DEBUG"), 42),
    ],
)
def test_what_is_no_level_is_refused_with_a_sentence_and_nothing_is_changed(wire, node, operation, code):
    before = level(wire, "milepost.broker")
    found, message = alter(wire, LOGGER, node, ("milepost.broker", SET, "TRACE"), operation)
    assert found == code
    assert message
    assert level(wire, "milepost.broker") == before


def test_another_brokers_loggers_are_not_here(wire):
    result = describe(wire, LOGGER, "1")
    assert (result.error_code, result.error_message) == (42, "loggers of broker '1': this is broker 0")


def test_they_are_not_replaced_as_a_whole(wire):
    assert replace(wire, LOGGER, "0", milepost_net="DEBUG")[0] == 42
