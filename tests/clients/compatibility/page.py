"""docs/compatibility.md as text, from what the client tests left behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from milepost.broker.dispatch import served_apis
from tests.clients.compatibility.columns import Column, columns
from tests.clients.compatibility.record import ToolRun, lines_of
from tests.clients.situations import SEEN

NOTES = Path(__file__).parent / "notes.md"
INTRODUCTION = """\
# Compatibility

Unmodified clients against `milepost serve`, as the tests in `tests/clients` run them: a broker process on a free port of the
loopback interface. Its settings are the defaults, but for two partitions in a new topic and in each internal topic, no delay before
a group's first rebalance, and a heartbeat of 200 ms in the consumer protocol; most of the clients are set to heartbeat as often.

`make compatibility` runs those tests and writes this page from what they did; only "Known to fail" is written by hand. The programs of
the clients in other languages see the same of Apache Kafka 4.3.0 (`make trouble` asks it).
"""
TOOLS_TEXT = """\
What each tool was asked to do; "yes" is one that does one thing only. The tests check what it prints.
"""
APIS_TEXT = """\
The versions of each API that the tests above made each client send. An empty cell: the tests of that client do not send it. ApiVersions
is how a client finds out: it may begin with a version that is not served, and is told so.
"""


def page(directory: Path) -> str:
    """`directory` is the one that the environment named when the tests ran."""
    found = columns(directory)
    parts = [
        INTRODUCTION,
        "## What was run\n",
        clients_table(found),
        "## What they did\n",
        situations_table(found),
        reasons(found),
        "## Kafka's tools\n",
        TOOLS_TEXT,
        tools_table(list(lines_of(directory, ToolRun, "test_java_tools"))),
        NOTES.read_text(),
        "## API by client\n",
        APIS_TEXT,
        apis_table(found),
    ]
    return "\n".join(parts)


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, *rows]
    cells = ["|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines]
    return "".join([cells[0], "|" + "---|" * len(heading) + "\n", *cells[1:]])


def clients_table(found: list[Column]) -> str:
    rows = [[column.client.title, column.version(), column.client.language, column.passed()] for column in found]
    return table(["client", "version", "language", "tests passed"], rows)


def situations_table(found: list[Column]) -> str:
    """The clients that have the list of situations; Kafka's tools and Streams have tests of another kind."""
    clients = [column for column in found if any(line.situation for line in column.outcomes)]
    rows = [[situation, *(column.cell(situation) for column in clients)] for situation in SEEN]
    return table(["", *(column.client.title for column in clients)], rows)


def reasons(found: list[Column]) -> str:
    """What "—" stands for."""
    lines = []
    for column in found:
        why: dict[str, list[str]] = {}
        for situation, reason in column.lacks.items():
            why.setdefault(reason, []).append(f'"{situation}"')
        lines += [f"- {column.client.title}, {', '.join(situations)}: {reason}" for reason, situations in why.items()]
    return "What a client cannot do, and why:\n\n" + "\n".join(lines) + "\n"


def tools_table(runs: list[ToolRun]) -> str:
    versions = sorted({run.version for run in runs})

    def asked(tool: str, version: str) -> str:
        mine = [run for run in runs if (run.tool, run.version) == (tool, version)]
        words = sorted({word for run in mine for word in run.options}, key=lambda word: (word.startswith("-"), word))
        return ", ".join(f"`{word}`" for word in words) or ("yes" if mine else "")

    rows = [[f"kafka-{tool}", *(asked(tool, version) for version in versions)] for tool in sorted({run.tool for run in runs})]
    return table(["tool", *versions], rows)


def apis_table(found: list[Column]) -> str:
    rows = []
    for key, api in sorted(served_apis().items()):
        asked = [sorted(version for of, version in column.asked if of == key) for column in found]
        rows.append([f"{api.name} ({key})", spans(range(api.served[0], api.served[1] + 1)), *map(spans, asked)])
    return table(["API (key)", "served", *(column.client.title for column in found)], rows)


def spans(versions: Sequence[int]) -> str:
    """[4, 5, 6, 9] is "4 to 6, 9"."""
    starts = [version for version in versions if version - 1 not in versions]
    ends = [version for version in versions if version + 1 not in versions]
    return ", ".join(f"{start}" if start == end else f"{start} to {end}" for start, end in zip(starts, ends, strict=True))
