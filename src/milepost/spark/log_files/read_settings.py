"""What a task over files needs to know of the options, as plain values that cross to its process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadSettings:
    paths: tuple[str, ...]
    read_committed: bool = False
    follow_symlinks: bool = False
    fail_on_data_loss: bool = True
    quarantine_path: str | None = None
    """None in mode strict."""
