"""Sets of topics or partitions, each kept once: many groups have the same, and each set may have all there are."""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
_known: WeakValueDictionary[int, frozenset[Any]] = WeakValueDictionary()
"""By their hashes, as long as somebody has them."""


def shared(elements: frozenset[T]) -> frozenset[T]:
    """The same set, as somebody may have it already."""
    known = _known.setdefault(hash(elements), elements)
    return known if known == elements else elements
