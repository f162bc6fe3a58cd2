"""Kafka's Java client, of 3.9.1 and of 4.3.0: `JavaClient.java` does what its users do and prints what it sees.

One program and one comparison for each version: compiling it and starting a JVM takes longer than all that it does.
"""

from __future__ import annotations

import subprocess

import pytest

from milepost.codec.compression import Codec
from tests.clients.java_tools import CLIENT, java_command
from tests.clients.served import Served

pytestmark = pytest.mark.kafka
SECONDS = 150
CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
SEEN = {
    **{f"codec {codec}": "200 in order true" for codec in CODECS},
    # Keys, values, timestamps and headers, nulls among them.
    "record 0": "key value 1500000000123 [trace:abc, none:null]",
    "record 1": "null null 1500000000124 []",
    # Near message.max.bytes, and above it.
    "900 kB": "0",
    "900 kB read": "900000",
    "2 MB": "RecordTooLargeException",
    # Ten records, a second apart.
    "at 3500": "4",
    "at 9001": "null",
    "ends": "0 10",
    # Three transactions, the second aborted; then offsets in one that commits and in one that aborts.
    "committed": "first third",
    "uncommitted": "first lost third",
    "offset after 2": "2",
    "offset after 4": "2",
    "fenced": "ProducerFencedException",
    # Partitions of two members: the first alone, both, the second gone.
    "classic alone": "4 0",
    "classic together": "2 2",
    "classic left": "4 -1",
    "consumer alone": "4 0",
    "consumer together": "2 2",
    "consumer left": "4 -1",
    # Four records and a commit; the rest in another consumer.
    "first reader": "0 1 2 3",
    "second reader": "4 5",
}


@pytest.mark.parametrize("version", ["3.9.1", "4.3.0"])
def test_the_java_client_sees_what_it_would_see_of_kafka(served: Served, version: str):
    prefix = f"java-{version}-"
    command = java_command(version, str(CLIENT), served.bootstrap, prefix)
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    assert dict(line.split("=", 1) for line in done.stdout.splitlines()) == SEEN
    assert {codec: served.codecs(f"{prefix}codec-{codec}") for codec in CODECS} == {codec: {CODECS[codec]} for codec in CODECS}
