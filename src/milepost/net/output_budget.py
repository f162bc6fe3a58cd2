"""How many bytes of answers may wait for their clients, over all connections.

An answer is made when its request is handled, and waits in memory while its client does not read. What small answers may pile up is
bounded for each connection: nothing more is read from one whose answers wait. Large answers are made in slices (`broker/slices`), and
while the budget is used up none is begun: requests for them wait, all others are served.

    waiting      bytes in memory that are to be sent; records that go from disk to socket are not among them
    when_free    be called once, when there is room again

While a connection waits for room, another one that takes less than LEAST_TAKEN in a second is closed: it reads too slowly for
what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

MOST_WAITING = 64 << 20
LEAST_TAKEN = 64 << 10


class Sending(Protocol):
    """A connection: how many bytes wait for its client."""

    out_bytes: int


S = TypeVar("S", bound=Sending)


class OutputBudget:
    def __init__(self) -> None:
        self.waiting = 0
        self._resumes: list[Callable[[], object]] = []
        self._seen: dict[Sending, int] = {}

    @property
    def is_full(self) -> bool:
        return self.waiting >= MOST_WAITING

    def when_free(self, resume: Callable[[], object]) -> None:
        self._resumes.append(resume)

    def release(self, size: int) -> None:
        """So many bytes were sent, or never will be."""
        self.waiting -= size
        if self._resumes and not self.is_full:
            resumes, self._resumes = self._resumes, []
            for resume in resumes:
                resume()

    def too_slow(self, channels: Iterable[S]) -> list[S]:
        """Asked every second: which of them keep others from being answered."""
        if not self._resumes:
            self._seen = {}
            return []
        sending = [channel for channel in channels if channel.out_bytes]
        before, self._seen = self._seen, {channel: channel.out_bytes for channel in sending}
        return [each for each in sending if each.out_bytes > before.get(each, each.out_bytes + LEAST_TAKEN) - LEAST_TAKEN]
