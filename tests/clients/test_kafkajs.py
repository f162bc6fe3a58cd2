"""KafkaJS: `kafkajs/client.js` does what its users do and prints what it sees. It has no lz4 and no zstd of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from milepost.codec.compression import Codec
from tests.clients.served import Served
from tests.interop.kafka_harness import unavailable

HERE = Path(__file__).parent / "kafkajs"
SECONDS = 120
CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY}
SEEN = {
    **{f"codec {codec}": "200 in order true" for codec in CODECS},
    "record 0": "key value 1500000000123 abc",
    "record 1": "gone null 1500000000124 undefined",
    "by time": "1",
    # Three transactions with a record and an offset each, the second aborted.
    "offset after first": "1",
    "offset after lost": "1",
    "offset after third": "1",
    "committed": "first third",
    "uncommitted": "first lost third",
    # Partitions of two members: the first alone, both, the second gone.
    "alone": "4",
    "together": "2 2",
    "left": "4",
    "described": "Stable 1",
    "listed": "false",
    "partitions": "5",
    "retention": "7000000",
    "low": "1",
    "still there": "false",
}


def modules() -> Path:
    """The directory with KafkaJS, fetched by npm once into the user's cache."""
    npm = shutil.which("npm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "milepost-tests"
    target = cache / f"kafkajs-{hashlib.sha256((HERE / 'package.json').read_bytes()).hexdigest()[:12]}"
    if target.exists():
        return target / "node_modules"
    if npm is None:
        unavailable("npm is not installed: it fetches KafkaJS")
    cache.mkdir(parents=True, exist_ok=True)
    # Filled beside its final name and renamed: another test process may be doing the same.
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=cache))
    shutil.copy(HERE / "package.json", partial)
    command = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(partial)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(partial)
        unavailable(f"npm could not fetch KafkaJS (exit {done.returncode}): {done.stdout[-2000:]}{done.stderr[-2000:]}")
    try:
        partial.rename(target)
    except OSError:
        shutil.rmtree(partial)
    return target / "node_modules"


def test_kafkajs_sees_what_it_would_see_of_kafka(served: Served):
    node = shutil.which("node")
    if node is None:
        unavailable("Node.js is not installed: KafkaJS runs on it")
    environment = {**os.environ, "NODE_PATH": str(modules()), "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    command = [node, str(HERE / "client.js"), served.bootstrap, "kafkajs-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == SEEN
    assert {codec: served.codecs(f"kafkajs-codec-{codec}") for codec in CODECS} == {codec: {CODECS[codec]} for codec in CODECS}
