"""A progress bar for long work: only over 1 GB, only on a terminal, only when rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LARGE = 1_000_000_000


@contextmanager
def progress_bar(title: str, total: int, large: int = LARGE) -> Iterator[Callable[[int], None]]:
    """A function to be called with the number of bytes done; without a bar it does nothing."""
    if total <= large or not sys.stderr.isatty():
        yield _nothing
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield _nothing
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def _nothing(done: int) -> None:
    """Nobody is watching."""
