"""How a broker ends: what was asked is answered, and a bug ends it with a sentence and not with silence."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time

import pytest

from milepost.protocol import frames
from milepost.protocol.messages import FetchRequest
from tests.broker.test_serve import CLEAN, Served, serving
from tests.broker.topics import create, produce, wanted
from tests.broker.wire import Wire

modes = pytest.mark.parametrize("mode", ["inline", "pooled"])
# It waits five seconds otherwise, which a busy machine may need for a reader that is not slow.
PATIENT = "from milepost.net import socket_server; socket_server.DRAIN_SECONDS = 120.0"
# The first request meets a bug outside of everything that is caught.
BROKEN = """
from milepost.broker import dispatch

def handle(self, request):
    raise RuntimeError("nobody thought of this")

dispatch.Dispatcher.handle = handle
from milepost.cli.main import main
main(prog_name="milepost")
"""


@modes
def test_answer_that_is_on_its_way_arrives_although_the_broker_is_told_to_stop(tmp_path, mode):
    with (
        serving(tmp_path, "-X", f"request.channel.mode={mode}", "-X", "socket.send.buffer.bytes=20000", first=PATIENT) as served,
        Wire(served.address) as wire,
    ):
        create(wire, wanted("t"))
        for _ in range(4):
            produce(wire, "t", [b"x" * 1_000_000])
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=4 << 20)
        request = FetchRequest(max_bytes=4 << 20, min_bytes=1, topics=[FetchRequest.Topic(topic="t", partitions=[part])])
        wire.socket.sendall(frames.encode_request(1, 11, 77, "wire", request))
        (size,) = struct.unpack(">i", wire._read(4))
        assert size > 3_000_000
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert len(wire._read(size)) == size
        assert served.process.wait(timeout=180) == 0
    assert (tmp_path / CLEAN).exists()


@modes
def test_error_that_nobody_caught_ends_the_process_with_a_sentence(tmp_path, mode):
    command = [sys.executable, "-W", "error", "-c", BROKEN, "serve", "--data", str(tmp_path), "--port", "0"]
    command += ["-X", f"request.channel.mode={mode}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            served = Served(process)
            with Wire(served.address) as wire:
                wire.socket.sendall(struct.pack(">ihhih4s", 14, 18, 0, 7, 4, b"wire"))
                _, errors = process.communicate(timeout=180)
        finally:
            process.kill()
    assert process.returncode == 3
    sentence = errors.splitlines()[-1]
    assert sentence.startswith(
        "milepost: the broker stopped because of an error in milepost itself, RuntimeError: nobody thought"
    )
    assert not (tmp_path / CLEAN).exists(), "nobody knows what state the logs are in"
