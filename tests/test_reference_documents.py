"""The reference pages say what the program has: every property with its default, every command with its options, every error.

When one of these fails, the message is what belongs into the page.
"""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import click
import pytest

import milepost
from milepost import BrokerConfig, LogConfig, errors
from milepost.cli.main import COMMANDS, main
from milepost.config.configuration import properties
from milepost.config.definition import DOUBLE_MAX, LONG_MAX, Property
from milepost.config.security import SecurityConfig
from milepost.log.append_info import AppendInfo
from milepost.log.log import Log
from milepost.log.reading import FetchData, Found

DOCS = Path(__file__).parents[1] / "docs"
LOG_PACKAGES = ("files", "config", "codec", "record", "segment", "log", "inspect")
BOUNDS = {LONG_MAX: "no limit", DOUBLE_MAX: "no limit"}


def default_of(prop: Property) -> str:
    if prop.default is None:
        return "not set"
    return BOUNDS.get(prop.default) or prop.format(prop.default) or "empty"


def allowed_by(prop: Property) -> str:
    text = prop.allowed().replace("|", "\\|").replace(f"a number from {-DOUBLE_MAX} to {DOUBLE_MAX}", "a number")
    for bound, word in (
        (str(2**63 - 1), "2^63-1"),
        (str(-(2**63)), "-2^63"),
        (str(2**31 - 1), "2^31-1"),
        (str(-(2**31)), "-2^31"),
    ):
        text = text.replace(bound, word)
    return text


def topic_row(prop: Property) -> str:
    broker = ", ".join(f"`{name}`" for name in prop.broker)
    return f"| `{prop.name}` | {prop.type.value} | {default_of(prop)} | {allowed_by(prop)} | {broker} | {prop.doc} |"


def broker_row(prop: Property) -> str:
    return f"| `{prop.name}` | {prop.type.value} | {default_of(prop)} | {allowed_by(prop)} | {prop.doc} |"


@pytest.mark.parametrize("prop", properties(LogConfig).values(), ids=lambda prop: prop.name)
def test_topic_property_has_its_row(prop):
    assert topic_row(prop) in (DOCS / "configuration.md").read_text().splitlines()


def log_properties() -> list[Property]:
    """The broker properties that concern logs: the page is about those, `milepost config show` lists all."""
    synonyms = {name for prop in properties(LogConfig).values() for name in prop.broker}
    return [prop for prop in properties(BrokerConfig).values() if prop.name in synonyms or prop.name.startswith("log.")]


@pytest.mark.parametrize("prop", log_properties(), ids=lambda prop: prop.name)
def test_broker_property_of_logs_has_its_row(prop):
    assert broker_row(prop) in (DOCS / "configuration.md").read_text().splitlines()


@pytest.mark.parametrize("prop", properties(SecurityConfig).values(), ids=lambda prop: prop.name)
def test_property_of_security_has_its_row(prop):
    assert broker_row(prop) in (DOCS / "configuration.md").read_text().splitlines()


def test_configuration_page_has_no_row_for_a_property_that_is_gone():
    rows = {topic_row(prop) for prop in properties(LogConfig).values()} | {
        broker_row(prop) for kind in (BrokerConfig, SecurityConfig) for prop in properties(kind).values()
    }
    listed = [line for line in (DOCS / "configuration.md").read_text().splitlines() if line.startswith("| `")]
    assert [line for line in listed if line not in rows] == []


INSTALLED = [name for name in COMMANDS if importlib.util.find_spec(f"milepost.cli.{name}")]


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(main)
    found = []
    for name in INSTALLED:
        command = main.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {part}", command.commands[part]) for part in command.commands]
    return found


@pytest.mark.parametrize("name", INSTALLED)
def test_command_has_its_section(name):
    assert f"## milepost {name}" in (DOCS / "cli.md").read_text()


def test_every_option_of_every_command_is_on_the_page():
    page = (DOCS / "cli.md").read_text()
    options = [
        (name, parameter.opts[0])
        for name, command in commands()
        for parameter in command.params
        if isinstance(parameter, click.Option)
    ]
    assert [option for option in options if f"`{option[1]}" not in page] == []


@pytest.mark.parametrize("name", milepost.PUBLIC)
def test_public_name_is_on_the_page_of_the_python_interface(name):
    assert f"`{name}" in (DOCS / "python-api.md").read_text() or f"milepost.{name}" in (DOCS / "python-api.md").read_text()


@pytest.mark.parametrize("value", [AppendInfo, Found, FetchData])
def test_every_field_of_a_value_is_on_the_page(value):
    page = (DOCS / "python-api.md").read_text()
    fields = value._fields if issubclass(value, tuple) else value.__dataclass_fields__
    assert [name for name in fields if f"`{name}`" not in page] == []


def test_every_public_method_of_a_log_is_on_the_page():
    page = (DOCS / "python-api.md").read_text()
    for_owners = {
        *(
            "ensure_writable",
            "refuse",
            "fail",
            "complete",
            "replay_producers",
            "close_handles",
            "begin_close",
            "end_close",
            "finish_background_work",
        ),
        # What a broker has done beside its loop.
        *(
            "in_background",
            "files_from",
            "flush_in_background",
            "flush_before_answer",
            "flush_no_further_than",
            "snapshot_in_background",
            "swap",
            "sync_in_background",
            "unlink_later",
        ),
        *("when_flushed", "write_epochs_in_background"),
        # A leader's first word, and the end of a log that its manager takes away.
        *("assign_epoch", "begin_taking_away", "taken_away", "finish_files", "start_verification"),
    }
    methods = [name for name, member in inspect.getmembers(Log, inspect.isfunction) if not name.startswith("_")]
    assert [name for name in methods if name not in for_owners and f"`{name}(" not in page] == []


def log_errors() -> list[type[errors.MilepostError]]:
    """Those that the log and its tools name; what only a network can raise is not on this page."""
    source = Path(milepost.__file__).parent
    text = "".join(path.read_text() for package in LOG_PACKAGES for path in (source / package).rglob("*.py"))
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.MilepostError)]
    return [error for error in classes if error.__name__ in text]


@pytest.mark.parametrize("error", log_errors(), ids=lambda error: error.__name__)
def test_error_has_its_row(error):
    row = f"| `{error.__name__}` | {error.code} | {error.exit_code} |"
    assert any(line.startswith(row) for line in (DOCS / "python-api.md").read_text().splitlines()), row
