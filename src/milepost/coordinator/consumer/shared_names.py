"""Sets of names of topics, each kept once: patterns of many groups stand for the same topics, and each set may have all there are."""

from __future__ import annotations

from weakref import WeakValueDictionary

Names = frozenset[str]
_known: WeakValueDictionary[int, Names] = WeakValueDictionary()
"""By their hashes, as long as somebody has them."""


def shared(names: Names) -> Names:
    """The same names, as somebody may have them already."""
    known = _known.setdefault(hash(names), names)
    return known if known == names else names
