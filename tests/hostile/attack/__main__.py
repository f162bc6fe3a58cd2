"""`python -m tests.hostile.attack`: the table of attacks; exit code 1 when one is beyond the bound."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from tests.hostile.attack import table
from tests.hostile.attack.campaign import everything, rows
from tests.hostile.attack.generator import Attack
from tests.hostile.attack.target import Target


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.attack", description="Attack a broker with every API and field."
    )
    parser.add_argument("--api", action="append", help="only this one; may be given again")
    parser.add_argument("--version", type=int, action="append", help="only this one; without it the newest")
    parser.add_argument("--all", action="store_true", help="every version")
    parser.add_argument("--field", help="only fields that contain this")
    parser.add_argument("--kind", help="only kinds that contain this: unknown, known, repeats, longest, pattern, extremes, ...")
    parser.add_argument("--bad", action="store_true", help="rows beyond the bound, and one line for each version")
    given = parser.parse_args()
    places = [
        (api, version)
        for api, version in everything(newest_only=not (given.all or given.version))
        if (not given.api or api.name in given.api) and (not given.version or version in given.version)
    ]

    def is_wanted(attack: Attack) -> bool:
        return (not given.field or given.field in attack.field) and (not given.kind or given.kind in attack.kind)

    directory = Path(tempfile.mkdtemp(prefix="milepost-attack-"))
    target = Target(directory)
    done = []
    try:
        print(table.HEAD, flush=True)
        for place, group in groupby(rows(target, places, is_wanted), lambda row: (row.attack.api, row.attack.version)):
            of_version = []
            for row in group:
                of_version.append(row)
                if not (given.bad and row.holds):
                    print(table.line(row), flush=True)
            if given.bad:
                print(table.summary(*place, of_version), flush=True)
            done += of_version
    finally:
        target.end()
        shutil.rmtree(directory, ignore_errors=True)
    beyond = sum(not row.holds for row in done)
    print(f"\n{len(done)} attacks, {beyond} beyond the bound; the worst:\n{table.HEAD}")
    print("\n".join(map(table.line, table.worst(done, 20))))
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
