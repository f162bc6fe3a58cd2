"""`make simulate SEEDS=1..10000`, `make simulate SEED=1234 TRACE=1`: many seeds, or one with every step.

    python -m tests.simulation 1..10000 [--workers 2]
    python -m tests.simulation 1234 [--trace]

Ends with 1 if a seed failed; the first line of each failure says how to look at it. It stops after ten: they tend to have one cause.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter

from tests.checker.history import Finding
from tests.simulation.cluster import Run, run

MOST_FAILURES = 10


def guarded_run(seed: int) -> Run:
    """An exception is a finding like any other, and nothing is logged."""
    # Below that level nothing is even written; what is not caught by `Complaints` goes nowhere.
    logging.getLogger("milepost").setLevel(logging.ERROR)
    logging.getLogger("milepost").propagate = False
    try:
        return run(seed)
    except Exception:
        return Run(seed, [Finding("exception", traceback.format_exc())], 0, 0, 0)


def seeds_of(text: str) -> range:
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def report(found: Run) -> None:
    print(f"seed {found.seed} failed; to see every step: make simulate SEED={found.seed} TRACE=1", flush=True)
    for finding in found.findings[:5]:
        print(f"    {finding.rule}: {finding.text}", flush=True)


def simulate(seeds: range, workers: int) -> int:
    began = time.monotonic()
    sends: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    ran = failed = 0
    slowest = (0.0, 0)
    with multiprocessing.Pool(workers) as pool:
        for found in pool.imap_unordered(guarded_run, seeds, chunksize=8):
            ran += 1
            slowest = max(slowest, (found.settled, found.seed))
            sends.update(found.sends)
            faults.update(found.faults)
            if found.findings:
                failed += 1
                rules.update({finding.rule for finding in found.findings})
                report(found)
                if failed == MOST_FAILURES:
                    break
    print(f"{ran} seeds in {time.monotonic() - began:.0f} s: {failed} failed {dict(rules) if rules else ''}")
    print(f"sends: {dict(sends)}; faults: {dict(sorted(faults.items()))}")
    print(f"slowest to agree in peace: seed {slowest[1]}, {slowest[0]:.1f} s")
    return 1 if failed else 0


def replay(seed: int, *, with_trace: bool) -> int:
    if with_trace:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="          | %(message)s")
    found = run(seed, print if with_trace else None)
    print(f"seed {seed}: fingerprint {found.fingerprint:08x}, {found.events} events, {found.messages} messages")
    print(f"sends: {found.sends}; faults: {found.faults}; agreed after {found.settled:.1f} s")
    if found.findings:
        report(found)
    return 1 if found.findings else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.partition("\n")[0])
    parser.add_argument("seeds", help="one seed, or FIRST..LAST")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--trace", action="store_true", help="every step (of one seed)")
    given = parser.parse_args()
    seeds = seeds_of(given.seeds)
    return replay(seeds[0], with_trace=given.trace) if len(seeds) == 1 else simulate(seeds, given.workers)


if __name__ == "__main__":
    sys.exit(main())
