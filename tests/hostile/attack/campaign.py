"""Many attacks, one after the other, each against a broker that is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from milepost.broker.dispatch import served_apis
from milepost.broker.inter_broker import KEYS
from milepost.protocol.apis import BY_KEY, Api
from tests.hostile.attack.generator import Attack, attacks
from tests.hostile.attack.siege import Besieged, Row, carry_out
from tests.hostile.attack.world import World

TRIES = 3
MOST_KEPT = 24 << 20
READS = ("Describe", "List", "Find", "OffsetFetch", "OffsetForLeaderEpoch", "Fetch", "ConsumerGroupDescribe")
"""How the APIs begin that change nothing in the data, whatever they answer. Metadata makes topics."""


class Attackable(Besieged, Protocol):
    def world_of(self, api: Api) -> World:
        """As whoever attacks this API knows it."""
        ...

    def renew(self) -> None: ...

    @property
    def is_alive(self) -> bool: ...


def everything(newest_only: bool = False) -> Iterator[tuple[Api, int]]:
    """Every API and version that a broker has an answer to, also if it only refuses."""
    for key in sorted({*served_apis(), *KEYS}):
        api = BY_KEY[key]
        first, last = api.served
        yield from ((api, version) for version in range(last if newest_only else first, last + 1))


def rows(
    target: Attackable, places: Iterable[tuple[Api, int]], wanted: Callable[[Attack], bool] = lambda attack: True
) -> Iterator[Row]:
    last: Api | None = None
    kept = 0
    for api, version in places:
        for attack in attacks(api, version, target.world_of(api)):
            if not wanted(attack):
                continue
            if api is not last or kept > MOST_KEPT:
                target.renew()
                last, kept = api, 0
            row = measured(target, attack)
            kept = MOST_KEPT + 1 if not row.holds or changes_much(row) else kept + max(0, row.kept)
            yield row


def measured(target: Attackable, attack: Attack) -> Row:
    """What is beyond the bound is measured again, alone, before it is called so."""
    row = carry_out(attack, target)
    for _ in range(TRIES - 1):
        if row.holds or row.wait > 1:
            break
        target.renew()
        row = row.better_of(carry_out(attack, target))
    return row


def changes_much(row: Row) -> bool:
    return "NONE" in row.answer and row.size > 10_000 and not row.attack.api.name.startswith(READS)
