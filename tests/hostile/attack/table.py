"""The rows of an attack as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from milepost.protocol.apis import Api
from tests.hostile.attack.siege import Row

HEAD = (
    f"  {'API':26} {'v':>2} {'field':44} {'kind':22} {'bytes':>9} {'wait ms':>8} {'wall ms':>8} {'grown MB':>8} {'kept MB':>8} "
    f"{'took s':>6}  answer"
)


def line(row: Row) -> str:
    attack = row.attack
    return (
        f"{' ' if row.holds else '!'} {attack.api.name:26} {attack.version:2} {attack.field:44} {attack.kind:22} {row.size:9,} "
        f"{row.wait * 1000:8.1f} {row.wall * 1000:8.1f} {row.growth / (1 << 20):8.1f} {row.kept / (1 << 20):8.1f} "
        f"{row.seconds:6.2f}  {row.answer}"
    )


def summary(api: Api, version: int, rows: Sequence[Row]) -> str:
    """Of all attacks on one version."""
    wait = max(row.wait for row in rows) * 1000
    growth = max(row.growth for row in rows) / (1 << 20)
    seconds = sum(row.seconds for row in rows)
    beyond = sum(not row.holds for row in rows)
    attacks = f"{len(rows)} attacks, {beyond} beyond"
    return f"= {api.name:26} {version:2} {attacks:77} {wait:8.1f} {'':8} {growth:8.1f} {'':8} {seconds:6.2f}"


def worst(rows: Iterable[Row], count: int) -> list[Row]:
    return sorted(rows, key=lambda row: -max(row.wait / 0.05, row.growth / (64 << 20)))[:count]
