"""atheris target: both kernels on hostile bytes. Run it: `python -m tests.fuzz.fuzz_kernel -atheris_runs=N`.

The plain twin is instrumented and leads the search; the compiled one gets the same inputs and must answer alike, error for error.
"""

from __future__ import annotations

import importlib.util

import atheris

import milepost.record.kernel as compiled
from milepost.errors import InvalidArgument, InvalidRecord
from tests.fuzz.coverage_guided import fuzz

source = str(importlib.util.find_spec("milepost.record").submodule_search_locations[0]) + "/kernel.py"
with atheris.instrument_imports(include=["plain_kernel"]):
    spec = importlib.util.spec_from_file_location("plain_kernel", source)
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
for name in ("scan_records", "decode_records", "_walk", "varint_at", "_next_candidate", "_is_message"):
    setattr(plain, name, atheris.instrument_func(getattr(plain, name)))


def outcome(call):
    try:
        return call()
    except (InvalidArgument, InvalidRecord) as error:
        return type(error).__name__, str(error)


def both(call) -> None:
    answers = [outcome(lambda kernel=kernel: call(kernel)) for kernel in (compiled, plain)]
    assert answers[0] == answers[1], answers


def decoded(kernel, data: bytes, count: int, timestamp: int):
    columns = kernel.decode_records(data, 0, len(data), count, 100, timestamp)
    again = kernel.encode_records(columns, data, data, data, 100, timestamp)
    read = kernel.decode_records(again, 0, len(again), count, 100, timestamp)
    assert (read.offsets, read.timestamps, read.value_length) == (columns.offsets, columns.timestamps, columns.value_length)
    return [getattr(columns, name) for name in kernel.Columns.__slots__]


def test_one_input(data: bytes) -> None:
    provider = atheris.FuzzedDataProvider(data)
    count, timestamp = provider.ConsumeIntInRange(0, 8), provider.ConsumeInt(8)
    rest = provider.ConsumeBytes(400)
    both(lambda kernel: kernel.scan_records(rest, 0, len(rest), count, timestamp))
    both(lambda kernel: decoded(kernel, rest, count, timestamp))
    both(lambda kernel: kernel.find_batch(rest, 0, len(rest), 0, 2**63 - 1))
    both(lambda kernel: kernel.check_entries(rest, len(rest) // 12, 12))


if __name__ == "__main__":
    fuzz(test_one_input)
