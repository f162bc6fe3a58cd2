"""Putting new segments in the place of old ones so that a crash at any point leaves one set or the other.

    phase  what is renamed                                    if the crash comes after it
    1      new segments `.cleaned` -> `.swap`, last first      loading finishes the swap (before its end: the new ones go)
    2      old segments -> `.deleted`                          loading finishes the swap
    3      new segments `.swap` -> final names, first first    done

Last first in phase 1, because loading drops every `.swap` at or above the lowest `.cleaned`: a swap that did not get
through all renames is undone as a whole. The directory is synced before phase 1, after each segment of it, and after each
phase (Kafka does it once, at the end): otherwise a power failure could keep later renames and lose earlier ones. In phase 3 each
`.log` gets its name durably before its indexes do: while it is a `.swap`, loading takes indexes with final names for old ones.

Renames belong to the thread that owns the log, which takes a moment for each; the syncs between them may keep a thread waiting, so
that a cleaner's thread does them. Whoever needs the log in between, to cut it or to delete it, finishes the swap itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from milepost.log.segments import LogSegments
from milepost.segment import names
from milepost.segment.segment import Segment


class Swap:
    def __init__(self, segments: LogSegments, new: Sequence[Segment], old: Sequence[Segment], retire: Callable[[Segment], None]):
        """Replace `old` by `new`, which are complete, flushed and named `.cleaned`. `retire` gets each old one once it is `.deleted`."""
        self._disk, self._directory = new[0].pool.disk, new[0].directory
        self._steps = self._renames(segments, new, old, retire)
        self.is_done = False

    def _renames(
        self, segments: LogSegments, new: Sequence[Segment], old: Sequence[Segment], retire: Callable[[Segment], None]
    ) -> Iterator[None]:
        """Yields wherever what was renamed so far must be durable before the next."""
        for segment in sorted(new, key=lambda segment: -segment.base_offset):
            segment.change_suffix(names.SWAP)
            yield
        for segment in sorted(old, key=lambda segment: segment.base_offset):
            if segment.base_offset in segments:
                segments.remove(segment.base_offset)
                segment.change_suffix(names.DELETED)
                retire(segment)
        for segment in new:
            segments.add(segment)
        yield
        for segment in sorted(new, key=lambda segment: segment.base_offset):
            yield from segment.renaming("")
        yield

    def step(self) -> None:
        """The owner's part: rename on."""
        self.is_done = next(self._steps, True) is True

    def sync(self) -> None:
        """Any thread's part, before each step."""
        self._disk.sync_directory(self._directory)

    def finish(self) -> None:
        """All that is left, here and now."""
        while not self.is_done:
            self.sync()
            self.step()
