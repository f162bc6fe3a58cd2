"""What was told to one broker, without what it had been told before.

Commands (LeaderAndIsr, StopReplica) all count, word for word. An UpdateMetadata counts for what is new in it to this broker in this life:
partitions told otherwise than the last time, or other living brokers. Kafka and milepost repeat themselves there as it happens: leaders
propose changes one by one or together, and each answer is followed by its own UpdateMetadata. Where the in-sync replicas of old protocols
travel by notes in ZooKeeper, some seconds later, only leaders and their epochs are news (`with_isr` false).

    commands     the commands as they were sent, one after the other
    kinds        the kinds of requests, one after the other, equal neighbours once
    words        about each partition, what was said, one after the other
    living       the living brokers, one after the other
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from tests.cluster.recorded.told import Partition, Told

UPDATE = "UpdateMetadata"


class Report(NamedTuple):
    commands: list[str]
    kinds: list[str]
    words: dict[str, list[str]]
    living: list[tuple[int, ...]]


class Listener:
    """A broker that remembers what it was told. It begins anew in a life of its own, and under each controller."""

    def __init__(self, broker_id: int, *, with_isr: bool):
        self.broker_id = broker_id
        self.with_isr = with_isr
        self.era = (-1, -1)
        self.known: dict[Partition, str] = {}
        self.live: tuple[int, ...] = ()

    def hear(self, told: Iterable[Told]) -> dict[int, Report]:
        """Controller epoch -> what is new in the requests of one step."""
        reports: dict[int, Report] = {}
        for each in told:
            if each.to == self.broker_id:
                self._hear(each, reports.setdefault(each.controller_epoch, Report([], [], {}, [])))
        return reports

    def _hear(self, told: Told, report: Report) -> None:
        if self.era != (told.life, told.controller_epoch):
            self.era, self.known, self.live = (told.life, told.controller_epoch), {}, ()
        news = told.partitions
        if told.api == UPDATE:
            news = self._news(told)
            is_new_life = told.live != self.live
            if is_new_life:
                self.live = told.live
                report.living.append(told.live)
            if not news and not is_new_life:
                return
        else:
            report.commands.append(f"{told.api} {' '.join(f'{name}-{n}({text})' for (name, n), text in sorted(news.items()))}")
        if report.kinds[-1:] != [told.api]:
            report.kinds.append(told.api)
        for (name, number), text in news.items():
            report.words.setdefault(f"{name}-{number}", []).append(f"{told.api} {text}")

    def _news(self, told: Told) -> dict[Partition, str]:
        said = {name: text if self.with_isr else leader_of(text) for name, text in told.partitions.items()}
        news = {name: text for name, text in said.items() if self.known.get(name) != text}
        self.known.update(news)
        return news


def leader_of(text: str) -> str:
    found = re.match(r"L-?\d+ e\d+", text)
    assert found is not None, text
    return found[0]
