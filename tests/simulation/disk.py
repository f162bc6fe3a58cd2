"""A broker's disk: files in memory that outlive the process, and lose what was not synced when the power fails."""

from __future__ import annotations

import posixpath
from random import Random

from tests.crash.memory_disk import MemoryDisk, State
from tests.crash.recorder import RecordingDisk
from tests.crash.replayer import DROP, KEEP, before


class FragileDisk(RecordingDisk):
    """Remembers what is on the medium; `after_power_failure` is one of the states that a failure now may leave."""

    def __init__(self, state: State | None = None):
        super().__init__(state)
        self._initial = dict(state or {})

    def rename(self, source: str, target: str) -> None:
        """That of a directory is durable at once: what is in it moves as a whole, or the start would find half a partition."""
        if source not in self.directories:
            super().rename(source, target)
            return
        inside = [path for path in self.nodes if path.startswith(source + "/")]
        for path in inside:
            super().rename(path, target + path[len(source) :])
        self._rename_directory(source, target)
        for directory in {posixpath.dirname(path) for path in inside}:
            self.note("sync", directory)

    def after_power_failure(self, random: Random) -> dict[str, bytes]:
        """Of what was not synced, some is there: the first so many operations, as disks mostly do it, or any."""
        durable = before(self._initial)
        for number, operation in enumerate(self.trace):
            durable.feed(number, operation)
        kept = random.randrange(len(durable.pending) + 1)
        choices = {number: KEEP if place < kept else DROP for place, (number, _) in enumerate(durable.pending)}
        if random.random() < 0.3:
            choices = {number: random.choice((KEEP, DROP)) for number, _ in durable.pending}
        return durable.state(choices, DROP)


def after_crash(disk: MemoryDisk, random: Random, *, is_power_failure: bool) -> MemoryDisk:
    """What the next process finds."""
    disk.die()
    if not isinstance(disk, FragileDisk):
        return MemoryDisk(disk.state(), disk.directories)
    return FragileDisk(disk.after_power_failure(random) if is_power_failure else disk.state())
