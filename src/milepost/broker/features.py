"""The features of this cluster that have levels, and the level each is at.

The levels are those of the program: they are the same on every start and no request moves them. A feature is listed
here when everything about its level is served.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    lowest: int
    highest: int
    level: int


FEATURES: dict[str, Feature] = {}
