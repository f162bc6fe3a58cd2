"""A column of docs/compatibility.md: a client, the version of it that was run, and which tests are its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Client:
    """`only`: of a test file that runs several versions of Kafka, the one that is this column."""

    title: str
    language: str
    version: Callable[[], str]
    only: str = ""


def kafka_clients(title: str, language: str) -> list[Client]:
    """The two versions of Kafka that the Java tests run, each a column."""

    def of(version: str) -> Client:
        return Client(f"{title} {version}", language, lambda: version, only=version)

    return [of("3.9.1"), of("4.3.0")]


def pinned(file: Path, name: str) -> Callable[[], str]:
    """The version of a dependency as a go.mod, package.json or Cargo.toml has it."""

    def find() -> str:
        found = re.search(rf'(?<![\w-]){re.escape(name)}["\s][^\n]*?(\d+\.\d+\.\d+)', file.read_text())
        assert found, f"{file} does not name {name}"
        return found[1]

    return find
