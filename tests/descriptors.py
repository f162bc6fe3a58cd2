"""Tests that leave logs and segments open, as a crash does, give their descriptors back when they end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from milepost.files import HandlePool
from milepost.log.directory.directory_lock import DirectoryLock


@pytest.fixture(autouse=True)
def descriptors_are_given_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pools: list[HandlePool] = []
    locks: list[DirectoryLock] = []

    def remember(kind: type, made: list[Any]) -> None:
        make = kind.__init__

        def make_and_remember(self: Any, *arguments: Any, **named: Any) -> None:
            make(self, *arguments, **named)
            made.append(self)

        monkeypatch.setattr(kind, "__init__", make_and_remember)

    remember(HandlePool, pools)
    remember(DirectoryLock, locks)
    yield
    for pool in pools:
        for handle in list(pool._open):
            handle.close()
    for lock in locks:
        lock.release()
