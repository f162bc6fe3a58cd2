"""Kafka's own command-line tools and Java clients, run from the jars that Maven fetches once for each version of Kafka."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

from tests.interop.kafka_harness import JVM_OPTIONS, java, unavailable

POM = Path(__file__).parent / "pom.xml"
RUNNER = Path(__file__).parent / "ToolRunner.java"
CLIENT = Path(__file__).parent / "JavaClient.java"
TOOL_SECONDS = 60

# Where the main classes are; a tool that has moved between the versions has one place for each.
TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "broker-api-versions": {"3.9.1": "kafka.admin.BrokerApiVersionsCommand", "4.3.0": f"{TOOLS}.BrokerApiVersionsCommand"},
    "cluster": f"{TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "console-producer": {"3.9.1": "kafka.tools.ConsoleProducer", "4.3.0": f"{TOOLS}.ConsoleProducer"},
    "consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{TOOLS}.ConsumerPerformance",
    "delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "get-offsets": f"{TOOLS}.GetOffsetShell",
    "log-dirs": f"{TOOLS}.LogDirsCommand",
    "producer-perf-test": f"{TOOLS}.ProducerPerformance",
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


@functools.cache
def jars(version: str) -> Path:
    """The directory with the jars of one version, in the user's cache and named by the digest of `pom.xml`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "milepost-tests"
    target = cache / f"kafka-tools-{version}-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if target.exists():
        return target
    maven = shutil.which("mvn")
    if maven is None:
        unavailable("Maven is not installed: it fetches Kafka's jars")
    cache.mkdir(parents=True, exist_ok=True)
    # Filled beside its final name and renamed: another test process may be doing the same.
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=cache))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={partial}", f"-Dkafka.version={version}"]
    done = subprocess.run([maven, "-B", "-q", "-f", str(POM), *goal], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(partial)
        unavailable(f"Maven could not fetch Kafka {version} (exit {done.returncode}): {done.stdout[-2000:]}{done.stderr[-2000:]}")
    try:
        partial.rename(target)
    except OSError:
        shutil.rmtree(partial)
    return target


def java_command(version: str, main: str, *arguments: str) -> list[str]:
    """`main` is a class or a source file, which the JVM compiles in memory."""
    return [java(), *JVM_OPTIONS, "-cp", f"{jars(version)}/*", main, *arguments]


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
            self.process.wait(TOOL_SECONDS)

    def alone(self, tool: str, *arguments: str) -> subprocess.Popen[str]:
        """The tool in a JVM of its own, asked about the broker: for one that is stopped by a signal or tidies up when its JVM ends."""
        command = java_command(self.version, self.main_class(tool), "--bootstrap-server", self.bootstrap, *arguments)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

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
        return printed

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
