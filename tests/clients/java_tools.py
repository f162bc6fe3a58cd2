"""Kafka's own command-line tools and Java clients, run from the jars of `toolchain.py`."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.clients.compatibility.record import ToolRun, recorder
from tests.interop import toolchain
from tests.waiting import PROCESS_PATIENCE

JAVA = Path(__file__).parent / "java"
RUNNER = JAVA / "ToolRunner.java"
CLIENT = JAVA / "JavaClient.java"
# The tools' log lines would only be in the way of what they print.
QUIET = JAVA / "quiet.properties"
TOOL_SECONDS = PROCESS_PATIENCE

# Where the main classes are; a tool that has moved between the versions has one place for each.
TOOLS = "org.apache.kafka.tools"
CLASSES: dict[str, str | dict[str, str]] = {
    "acls": {"3.9.1": "kafka.admin.AclCommand", "4.3.0": f"{TOOLS}.AclCommand"},
    "broker-api-versions": {"3.9.1": "kafka.admin.BrokerApiVersionsCommand", "4.3.0": f"{TOOLS}.BrokerApiVersionsCommand"},
    "cluster": f"{TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "console-producer": {"3.9.1": "kafka.tools.ConsoleProducer", "4.3.0": f"{TOOLS}.ConsoleProducer"},
    "consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{TOOLS}.ConsumerPerformance",
    "delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "features": f"{TOOLS}.FeatureCommand",
    "get-offsets": f"{TOOLS}.GetOffsetShell",
    "groups": f"{TOOLS}.GroupsCommand",
    "leader-election": f"{TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{TOOLS}.LogDirsCommand",
    "producer-perf-test": f"{TOOLS}.ProducerPerformance",
    "reassign-partitions": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "streams-application-reset": f"{TOOLS}.StreamsResetter",
    "topics": f"{TOOLS}.TopicCommand",
    "transactions": f"{TOOLS}.TransactionsCommand",
    "verifiable-consumer": f"{TOOLS}.VerifiableConsumer",
    "verifiable-producer": f"{TOOLS}.VerifiableProducer",
}

# What 3.9.1 calls an option that 4.3.0 has given another name.
OLDER_OPTIONS = {
    ("console-consumer", "--command-property"): "--consumer-property",
    ("console-consumer", "--formatter-property"): "--property",
    ("console-producer", "--reader-property"): "--property",
    ("consumer-perf-test", "--num-records"): "--messages",
    ("producer-perf-test", "--command-property"): "--producer-props",
}

# The commands and options that say what a tool does, for docs/compatibility.md; the others say to what.
ACTIONS = {
    *("--add", "--remove", "--consumer", "--resource-pattern-type", "--deny-host"),
    *("cluster-id", "list", "describe", "describe-producers", "find-hanging", "abort"),
    *("--alter", "--create", "--delete", "--delete-offsets", "--describe", "--list", "--reset-offsets", "--verify"),
    *("--add-config", "--delete-config", "--all", "--all-groups", "--members", "--state", "--offsets", "--verbose"),
    *("--dry-run", "--execute", "--shift-by", "--to-datetime", "--to-earliest", "--to-latest", "--to-offset"),
    *("--transactional-id", "--isolation-level", "--group", "--unavailable-partitions", "--election-type", "--time"),
}


def java_command(version: str, main: str, *arguments: str) -> list[str]:
    return toolchain.java_command(version, main, *arguments, log4j=QUIET)


class JavaTools:
    """The tools of one version, in one JVM that `ToolRunner.java` keeps (see there for what goes over its pipes)."""

    def __init__(self, version: str, bootstrap: str, errors: Path):
        self.version = version
        self.bootstrap = bootstrap
        self.errors = errors
        command = java_command(version, str(RUNNER))
        with errors.open("wb") as stream:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream)

    def close(self) -> None:
        with self.process:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(TOOL_SECONDS)
            finally:
                self.process.kill()

    @contextmanager
    def alone(self, tool: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """The tool in a JVM of its own, asked about the broker: for one that is stopped by a signal or tidies up when its JVM ends."""
        self._record(tool, arguments)
        command = java_command(self.version, self.main_class(tool), "--bootstrap-server", self.bootstrap, *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def main_class(self, tool: str) -> str:
        place = CLASSES[tool]
        return place if isinstance(place, str) else place[self.version]

    def run(self, tool: str, *arguments: str, given: str = "") -> str:
        """What the tool prints, asked about the broker; it must end with 0."""
        return self.ask(tool, "--bootstrap-server", self.bootstrap, *arguments, given=given)

    def ask(self, tool: str, *arguments: str, given: str = "") -> str:
        assert self.process.stdin is not None
        words = [OLDER_OPTIONS.get((tool, word), word) for word in arguments] if self.version == "3.9.1" else list(arguments)
        request = [as_text(self.main_class(tool)), struct.pack(">i", len(words)), *map(as_text, words), as_text(given)]
        self.process.stdin.write(b"".join(request))
        self.process.stdin.flush()
        code, printed, errors = self._number(), self._text(), self._text()
        assert code == 0, f"{tool} {' '.join(words)} ended with {code}:\n{printed[-3000:]}\n{errors[-3000:]}"
        self._record(tool, arguments)
        return printed

    def _record(self, tool: str, arguments: Sequence[str]) -> None:
        recorder().add("test_java_tools", ToolRun(self.version, tool, [word for word in arguments if word in ACTIONS]))

    def _number(self) -> int:
        return int.from_bytes(self._read(4), "big", signed=True)

    def _text(self) -> str:
        return self._read(self._number()).decode()

    def _read(self, size: int) -> bytes:
        assert self.process.stdout is not None
        data = self.process.stdout.read(size)
        assert len(data) == size, f"the tools' JVM ended with {self.process.wait()}:\n{self.errors.read_text()[-4000:]}"
        return data


def as_text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data
