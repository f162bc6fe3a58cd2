"""docs/compatibility.md has the shape of what is tested: every client, situation and API is there, and nothing on it fails.

The versions on the page are those of the machine that wrote it; `make compatibility` writes it anew.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from milepost.broker.dispatch import served_apis
from tests.clients.client import Client
from tests.clients.compatibility.columns import TEST_FILES, Column, columns
from tests.clients.compatibility.page import apis_table, page, spans, tools_table
from tests.clients.compatibility.record import Outcome, Recorder, ToolRun
from tests.clients.situations import CODECS, SEEN, covered_by

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "compatibility.md"
ADVICE = "`make compatibility` writes the page anew"
WITHOUT_SITUATIONS = {"test_kafka_streams", "test_java_tools"}


def tables() -> list[list[list[str]]]:
    """The page's tables, each a list of rows of cells."""
    found: list[list[list[str]]] = [[]]
    for line in PAGE.read_text().splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    return [[rows[0], *rows[2:]] for rows in found if rows]


def table(first_cell: str) -> list[list[str]]:
    (found,) = [rows for rows in tables() if rows[0][0] == first_cell]
    return found


@pytest.fixture
def wanted(tmp_path: Path) -> list[Column]:
    return columns(tmp_path)


def test_every_client_that_a_test_file_names_is_a_column():
    named = {path.stem for path in HERE.glob("test_*.py") if "\nCLIENTS = " in path.read_text()}
    assert set(TEST_FILES) == named


@pytest.mark.parametrize("name", [name for name in TEST_FILES if name not in WITHOUT_SITUATIONS])
def test_every_client_is_put_through_every_situation_or_says_why_not(wanted, name):
    (lacks,) = {id(column.lacks): column.lacks for column in wanted if column.test_file == name}.values()
    module = __import__(f"tests.clients.{name}", fromlist=["*"])
    tests = [test for test_name, test in inspect.getmembers(module, callable) if test_name.startswith("test_")]
    covered = [situation for test in tests for codec in CODECS for situation in covered_by(test, {"codec": codec})]
    assert set(covered) | set(lacks) == set(SEEN)
    assert not set(covered) & set(lacks)


def test_the_page_lists_every_client_and_all_its_tests_passed(wanted):
    rows = table("client")[1:]
    assert [row[0] for row in rows] == [column.client.title for column in wanted], ADVICE
    for title, version, _, passed in rows:
        some, all_of_them = passed.split(" of ")
        assert version, f"{title} has no version"
        assert some == all_of_them != "0", f"{title}: {passed} tests passed"


def test_the_page_has_every_situation_of_every_client(wanted):
    heading, *rows = table("")
    clients = [column for column in wanted if column.test_file not in WITHOUT_SITUATIONS]
    assert heading[1:] == [column.client.title for column in clients], ADVICE
    should_be = [[situation, *("—" if situation in column.lacks else "yes" for column in clients)] for situation in SEEN]
    assert rows == should_be, ADVICE


def test_the_page_has_every_api_that_is_served_and_no_version_beyond(wanted):
    heading, *rows = table("API (key)")
    served = served_apis()
    assert heading[2:] == [column.client.title for column in wanted], ADVICE
    assert [row[0] for row in rows] == [f"{api.name} ({key})" for key, api in sorted(served.items())], ADVICE
    for row, (key, api) in zip(rows, sorted(served.items()), strict=True):
        sent = [int(number) for cell in row[2:] for number in cell.replace(" to ", ", ").split(", ") if cell]
        # The first question of a client is the one that may be answered with "not so new, please".
        assert key == 18 or all(api.serves(version) for version in sent), row


def test_the_page_has_every_tool_with_both_versions():
    heading, *rows = table("tool")
    assert heading[1:] == ["3.9.1", "4.3.0"]
    named = {row[0] for row in rows if row[1] and row[2]}
    tools = (
        "topics console-producer console-consumer consumer-groups configs get-offsets delete-records log-dirs broker-api-versions"
    )
    more = "producer-perf-test consumer-perf-test transactions verifiable-producer verifiable-consumer"
    assert {f"kafka-{tool}" for tool in f"{tools} {more}".split()} <= named, ADVICE


@pytest.mark.parametrize(
    ("outcomes", "cell"), [(["passed"], "yes"), (["passed", "failed"], "fails"), (["skipped"], "skipped"), ([], "")]
)
def test_a_situation_is_as_good_as_the_worst_of_its_tests(tmp_path, outcomes, cell):
    recorder = Recorder(tmp_path)
    recorder.add("test_it", Outcome("test_another", "transactions", "failed"))
    for number, outcome in enumerate(outcomes):
        recorder.add("test_it", Outcome(f"test_{number}", "groups", outcome))
    column = Column(Client("It", "Python", lambda: "1.0"), "test_it", {"admin": "it has none"}, tmp_path)
    assert column.cell("groups") == cell
    assert column.cell("admin") == "—"


def test_columns_of_one_file_are_told_apart_by_the_version_of_kafka(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.add("test_it", Outcome("test_one[3.9.1-gzip]", "", "passed"))
    recorder.add("test_it", Outcome("test_one[4.3.0-gzip]", "", "failed"))
    asked = [("apache-kafka-java", "3.9.1", 1, 17), ("apache-kafka-java", "4.3.0", 1, 18), ("librdkafka", "2.16.0", 1, 16)]
    lines = [{"software": name, "software_version": of, "key": key, "version": version} for name, of, key, version in asked]
    (tmp_path / "test_it-1-1.requests").write_text("\n".join(map(json.dumps, lines)))
    older, newer = (Column(Client(only, "Java", lambda: "", only=only), "test_it", {}, tmp_path) for only in ("3.9.1", "4.3.0"))
    assert (older.passed(), newer.passed()) == ("1 of 1", "0 of 1")
    assert (older.asked, newer.asked) == ({(1, 17)}, {(1, 18)})
    fetch = apis_table([older, newer]).splitlines()[3]
    assert fetch == "| Fetch (1) | 4 to 18 | 17 | 18 |"


def test_versions_in_a_row_are_written_as_a_span():
    assert spans([4, 5, 6, 9, 11, 12]) == "4 to 6, 9, 11 to 12"
    assert spans([]) == ""


def test_a_tool_shows_what_it_was_asked_to_do_by_version():
    runs = [ToolRun("4.3.0", "topics", ["--list"]), ToolRun("4.3.0", "topics", ["--create"]), ToolRun("3.9.1", "log-dirs", [])]
    assert tools_table(runs).splitlines()[2:] == ["| kafka-log-dirs | yes | |", "| kafka-topics | | `--create`, `--list` |"]


def test_a_page_can_be_written_from_no_record_at_all(tmp_path):
    assert page(tmp_path).startswith("# Compatibility\n")
