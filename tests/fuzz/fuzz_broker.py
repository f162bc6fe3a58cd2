"""atheris target: bodies through the whole broker. Run it: `python -m tests.fuzz.fuzz_broker CORPUS -atheris_runs=N`.

The first four bytes are the API key and version, the rest is the body; those of requests that are not served are turned into
others. The broker lives for `INPUTS_TO_A_BROKER` inputs, so that what one leaves behind meets the next.
"""

from __future__ import annotations

import logging
import shutil
import struct
import tempfile
from pathlib import Path

import atheris

from tests.fuzz.coverage_guided import fuzz

with atheris.instrument_imports(include=["milepost.broker", "milepost.coordinator", "milepost.replica", "milepost.log"]):
    from milepost.broker.dispatch import served_apis
    from milepost.protocol import headers
    from tests.fuzz import driven_broker
    from tests.fuzz.broker_run import started
    from tests.fuzz.driven_broker import DrivenBroker
    from tests.fuzz.hostile_requests import Requests

INPUTS_TO_A_BROKER = 2000
HEALTH_EVERY = 100
SERVED = sorted(served_apis().values())


class Target:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fuzz-broker-"))
        self.inputs = 0
        self.driven: DrivenBroker | None = None

    def test_one_input(self, data: bytes) -> None:
        if len(data) < 4:
            return
        driven = self.driven = self.driven or started(self.directory / "data", 1, Requests(1))
        driven.feed(frame_of(data))
        self.inputs += 1
        if self.inputs % HEALTH_EVERY == 0:
            driven.judge_health()
        if self.inputs % INPUTS_TO_A_BROKER == 0:
            self.end()

    def end(self) -> None:
        if self.driven is not None:
            self.driven.stop()
            self.driven = None
        shutil.rmtree(self.directory / "data", ignore_errors=True)


def frame_of(data: bytes) -> bytes:
    key, version = struct.unpack_from(">hh", data)
    api = next((api for api in SERVED if api.key == key), None) or SERVED[key % len(SERVED)]
    if not api.serves(version):
        version = api.served[0] + version % (api.served[1] - api.served[0] + 1)
    return headers.request_header(api.key, version, 5, "atheris") + data[4:]


if __name__ == "__main__":
    # Counting branches slows everything down, and ten thousand partitions are allowed to take their time.
    driven_broker.SLOW_SECONDS = 100
    logging.getLogger("milepost").addHandler(logging.NullHandler())
    logging.getLogger("milepost").propagate = False
    fuzz(Target().test_one_input)
