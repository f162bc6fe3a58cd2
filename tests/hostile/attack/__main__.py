"""`python -m tests.hostile.attack`: the table of attacks; exit code 1 when one is beyond the bound."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from milepost.protocol.apis import Api
from tests.cluster.processes import running_zookeeper
from tests.hostile.attack import table
from tests.hostile.attack.campaign import everything, rows
from tests.hostile.attack.cluster_target import ClusterTarget, between_brokers
from tests.hostile.attack.generator import Attack
from tests.hostile.attack.siege import Row
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
    parser.add_argument("--cluster", action="store_true", help="what brokers send each other, at a broker of a cluster of three")
    parser.add_argument("--bad", action="store_true", help="rows beyond the bound, and one line for each version")
    given = parser.parse_args()

    def is_wanted(attack: Attack) -> bool:
        return (not given.field or given.field in attack.field) and (not given.kind or given.kind in attack.kind)

    def places(of: Iterable[tuple[Api, int]]) -> list[tuple[Api, int]]:
        return [
            (api, version)
            for api, version in of
            if (not given.api or api.name in given.api) and (not given.version or version in given.version)
        ]

    newest_only = not (given.all or given.version)
    done: list[Row] = []
    with TemporaryDirectory(prefix="milepost-attack-", ignore_cleanup_errors=True) as name, ExitStack() as stack:
        directory = Path(name)
        if given.cluster:
            zookeeper = stack.enter_context(running_zookeeper(directory / "zookeeper")).address
            for proven in (False, True):
                who = "broker" if proven else "stranger"
                target = stack.enter_context(closing(ClusterTarget(directory / who, zookeeper, proven=proven)))
                print(f"from a {who}\n{table.HEAD}", flush=True)
                wanted = places(between_brokers(newest_only=newest_only, proven=proven))
                done += printed(rows(target, wanted, is_wanted), only_bad=given.bad)
                target.close()
        else:
            alone = stack.enter_context(closing(Target(directory)))
            print(table.HEAD, flush=True)
            done += printed(rows(alone, places(everything(newest_only=newest_only)), is_wanted), only_bad=given.bad)
    beyond = sum(not row.holds for row in done)
    print(f"\n{len(done)} attacks, {beyond} beyond the bound; the worst:\n{table.HEAD}")
    print("\n".join(map(table.line, table.worst(done, 20))))
    return 1 if beyond else 0


def printed(done: Iterable[Row], *, only_bad: bool) -> Iterator[Row]:
    """Each as soon as it is done; only those beyond the bound, and then a line for each version."""
    for place, group in groupby(done, lambda row: (row.attack.api, row.attack.version)):
        of_version = []
        for row in group:
            of_version.append(row)
            if not (only_bad and row.holds):
                print(table.line(row), flush=True)
        if only_bad:
            print(table.summary(*place, of_version), flush=True)
        yield from of_version


if __name__ == "__main__":
    sys.exit(main())
