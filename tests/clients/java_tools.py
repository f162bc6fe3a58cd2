"""Kafka's own command-line tools, run from the jars that Maven fetches once for each version of Kafka."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.interop.kafka_harness import JVM_OPTIONS, java, unavailable

POM = Path(__file__).parent / "pom.xml"
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
    "e2e-latency": f"{TOOLS}.EndToEndLatency",
    "features": f"{TOOLS}.FeatureCommand",
    "get-offsets": f"{TOOLS}.GetOffsetShell",
    "leader-election": f"{TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{TOOLS}.LogDirsCommand",
    "producer-perf-test": f"{TOOLS}.ProducerPerformance",
    "topics": f"{TOOLS}.TopicCommand",
    "transactions": f"{TOOLS}.TransactionsCommand",
    "verifiable-consumer": f"{TOOLS}.VerifiableConsumer",
    "verifiable-producer": f"{TOOLS}.VerifiableProducer",
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


@dataclass(frozen=True)
class JavaTools:
    version: str
    bootstrap: str

    def command(self, tool: str, *arguments: str) -> list[str]:
        place = CLASSES[tool]
        main = place if isinstance(place, str) else place[self.version]
        return [java(), *JVM_OPTIONS, "-cp", f"{jars(self.version)}/*", main, *arguments]

    def run(self, tool: str, *arguments: str, given: str = "") -> str:
        """What the tool prints; it must end with 0."""
        command = self.command(tool, "--bootstrap-server", self.bootstrap, *arguments)
        return self.finish(command, given)

    def finish(self, command: list[str], given: str = "") -> str:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=TOOL_SECONDS, check=False)
        assert done.returncode == 0, f"{command[-6:]} ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout
