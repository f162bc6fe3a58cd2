"""What the requests that create and change topics share: names that come twice, and how much one may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

H = TypeVar("H", bound=Hashable)

MAX_PARTITIONS_AT_ONCE = 10_000
"""Of one request, as in Kafka."""


def repeated(names: Iterable[H]) -> set[H]:
    """What is there more than once."""
    return {name for name, times in Counter(names).items() if times > 1}
