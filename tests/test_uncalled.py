"""What is public is called from `src`, or is not there: a guard that exists and that nobody calls guards nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import milepost
from tests.uncalled import uncalled

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "milepost"

KAZOO = "kazoo calls it: a Promise stands in the place of its AsyncResult"
OFFSET_MAP = "filtering calls it: this stands in the place of the compiled OffsetMap, which has no interface"
HOOK = "pytest finds it by its name"
UNCALLED = {
    "milepost._build.find_spec": "Python's imports call it",
    "milepost.cluster.zookeeper.kazoo_handler.get_nowait": KAZOO,
    "milepost.cluster.zookeeper.kazoo_handler.set_exception": KAZOO,
    "milepost.cluster.zookeeper.kazoo_handler.successful": KAZOO,
    "milepost.inspect.explain.explain_text.sections_as_lines": "docs/tutorial.md prints an explanation with it",
    "milepost.inspect.tables.index_entries": "docs/python-api.md names the four tables of this module",
    "milepost.log.cleaning.offset_map.probe": "what the compiled lookup does at each attempt, to be compared with Kafka's",
    "milepost.log.producer_state.producers.is_verifying": "asked by the compiled quick_append, which imports no types",
    "milepost.net.tls_channel.has_unread": "the processor asks it: a property in the place of what a plain channel just has",
    "milepost.record.legacy_builder.build_legacy": "old logs to try things with: nothing that runs makes one any more",
    "milepost.spark.jobs.surviving.keep_batches": OFFSET_MAP,
    "milepost.spark.jobs.surviving.keep_records": OFFSET_MAP,
    "milepost.testing.plugin.pytest_addoption": HOOK,
    "milepost.testing.plugin.pytest_configure": HOOK,
}


def documented(heading: str) -> set[str]:
    """Names in a section of docs/python-api.md."""
    text = (ROOT / "docs" / "python-api.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    codes = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", section, flags=re.DOTALL))
    return {name for code in codes for name in re.findall(r"\w+", code)}


def names_of_the_public_interface() -> dict[str, set[str]]:
    """What others may call, by the package it is in."""
    return {"milepost.": set(milepost.PUBLIC), "milepost.log.": documented("Log"), "milepost.testing.": documented("pytest")}


def test_what_is_public_is_called_by_more_than_tests():
    paths = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in SOURCE.rglob("*.py")}
    sources = {name.removesuffix(".__init__"): path.read_text() for name, path in paths.items()}
    public = names_of_the_public_interface()
    called = {(name, each) for name in sources for package, names in public.items() if name.startswith(package) for each in names}
    found = {f"{module}.{name}": line for module, line, name in uncalled(sources, sources, called)}
    unused = [
        f"{name}, line {line}: nothing in src calls it; call it where it is needed, or delete it" for name, line in found.items()
    ]
    assert not [text for text in unused if text.partition(",")[0] not in UNCALLED], "\n".join(unused)
    assert not UNCALLED.keys() - found.keys(), "these are called, or are gone: take them off the list"


@pytest.mark.parametrize(
    "sources",
    [
        {"m": "def guard(): pass"},
        {"m": "class A:\n    @property\n    def guard(self): pass"},
        {"m": "def guard(n): return guard(n - 1)"},
        {"m": "class A:\n    def guard(self): return self.inner.guard()"},
        {"m": "def guard(): pass\nguard_of = {}\nthis.guard = 1"},
        {"m": "def guard(): pass", "other": "import net\ndef f(): net.guard()\nf()"},
        {"m": "class A:\n    def guard(self): pass", "other": "class B:\n    def guard(self): pass\nB().guard()"},
    ],
)
def test_guard_that_nobody_calls_is_noticed(sources):
    assert [name for _, _, name in uncalled(sources, ["m"])] == ["guard"]


def test_guard_that_is_called_only_by_what_nobody_calls_is_noticed():
    sources = {"m": "def guard(): pass\ndef check(): guard()", "other": "import m"}
    assert [name for _, _, name in uncalled(sources, ["m"])] == ["guard", "check"]


@pytest.mark.parametrize(
    "sources",
    [
        {"m": "def guard(): pass\ndef f(): guard()\nf()"},
        {"m": "def guard(): pass", "other": "from m import guard\nguard()"},
        {"m": "class A:\n    def guard(self): pass\n    def f(self): return self.guard\nA().f()"},
        {"m": "class A:\n    def guard(self): pass\n    check = guard"},
        {"m": "class A:\n    def _guard(self): pass"},
        {
            "m": "class A:\n    def guard(self): pass",
            "a": "class P(Protocol):\n    def guard(self): ...",
            "b": "import a\np.guard()",
        },
        {"m": "class A:\n    def guard(self): pass", "a": "import b", "b": "import m", "c": "import a\nx.guard()"},
    ],
)
def test_guard_that_is_called_is_left_alone(sources):
    assert uncalled(sources, ["m"]) == []


@pytest.mark.parametrize(
    "source",
    [
        "import click\n@click.command()\ndef command(): pass",
        "from click import option\n@option('--a')\n@other\ndef command(): pass",
        "import click\nclass A(click.Group):\n    def command(self): pass",
        "from pyspark.sql import Source\nclass A(Source):\n    pass\nclass B(A):\n    def command(self): pass",
    ],
)
def test_what_is_handed_to_another_project_is_called_there(source):
    assert uncalled({"m": source}, ["m"]) == []


@pytest.mark.parametrize(
    "source",
    [
        "from functools import cache\n@cache\ndef guard(): pass",
        "import cython\n@cython.locals(a=int)\ndef guard(): pass",
        "from m.own import wrapped\n@wrapped\ndef guard(): pass",
        "from typing import NamedTuple\nclass A(NamedTuple):\n    def guard(self): pass",
    ],
)
def test_what_is_decorated_by_python_or_by_this_project_is_not_called_by_that(source):
    assert [name for _, _, name in uncalled({"m": source}, ["m"])] == ["guard"]


def test_call_from_a_function_of_the_same_name_counts_where_that_one_is_called_from_outside():
    spark = "import m\nfrom spark import S\nclass B(S):\n    def commit(self): m.A().commit()"
    sources = {"m": "class A:\n    def commit(self): pass", "other": spark}
    assert uncalled(sources, ["m", "other"]) == []
