"""The columns of docs/compatibility.md: every client that a test file names in its `CLIENTS`, with what that file covers."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.clients.client import Client
from tests.clients.compatibility.record import Asked, Outcome, lines_of

# As clients are told apart: by the library that speaks the protocol.
TEST_FILES = (
    *("test_librdkafka", "test_kcat", "test_rdkafka", "test_kafka_python", "test_aiokafka"),
    *("test_franz_go", "test_sarama", "test_kafkajs", "test_java_client", "test_kafka_streams", "test_java_tools"),
)
JAVA_CLIENT = "apache-kafka-java"


@dataclass(frozen=True)
class Column:
    """One client, and what its tests left in `directory`."""

    client: Client
    test_file: str
    lacks: Mapping[str, str]
    directory: Path

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """Of its own tests: where a file runs several versions of Kafka, the version is the first parameter."""
        found = lines_of(self.directory, Outcome, self.test_file)
        return [line for line in found if not self.client.only or f"[{self.client.only}" in line.test]

    @cached_property
    def asked(self) -> set[tuple[int, int]]:
        """API keys and versions. The files with several versions tell by name, and have other clients at work beside."""
        return {
            (line.key, line.version)
            for line in lines_of(self.directory, Asked, self.test_file)
            if not self.client.only or (line.software, line.software_version) == (JAVA_CLIENT, self.client.only)
        }

    def version(self) -> str:
        """Of the client that was run; one that was not may not be installed."""
        return self.client.version() if any(line.outcome == "passed" for line in self.outcomes) else ""

    def passed(self) -> str:
        tests = [line.outcome for line in self.outcomes if not line.situation]
        return f"{tests.count('passed')} of {len(tests)}"

    def cell(self, situation: str) -> str:
        if situation in self.lacks:
            return "—"
        outcomes = {line.outcome for line in self.outcomes if line.situation == situation}
        if not outcomes:
            return ""
        return "yes" if outcomes == {"passed"} else "fails" if "failed" in outcomes else "skipped"


def columns(directory: Path) -> list[Column]:
    found = []
    for name in TEST_FILES:
        module = importlib.import_module(f"tests.clients.{name}")
        found += [Column(client, name, getattr(module, "LACKS", {}), directory) for client in module.CLIENTS]
    return found
