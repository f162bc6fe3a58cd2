"""Every state that a crash may leave of a recorded run.

    process   a process dies: what was asked of the kernel is done, except that a write in progress may be cut anywhere
    power     the machine dies: what an fsync of the file covered is there, and names that a sync of their directory
              covered; of everything else any mix. A write is kept, dropped, kept in part (by pages), or has moved the
              size without its data; a truncate is kept or dropped; a name change is kept or dropped, a rename as a whole

The rules are looser than any file system: they let a later write survive where an earlier one to the same page is
lost. Pages are 512 bytes here, the unit in which disks write, because the logs are small.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.crash.memory_disk import State
from tests.crash.recorder import Operation

PAGE = 512
NAME_CHANGES = ("create", "rename", "unlink")
DATA_CHANGES = ("write", "truncate")

KEEP, DROP, SIZE_ONLY, FIRST_PAGE, LAST_PAGE = "keep", "drop", "size only", "first page", "last page"


@dataclass(slots=True)
class Crash:
    """A state, and how it came about: after how many operations, and what became of those that were not durable."""

    after: int
    label: str
    state: State


@dataclass(slots=True)
class Durable:
    """What is on the medium, and which operations are not."""

    names: dict[str, int] = field(default_factory=dict)
    content: dict[int, bytes] = field(default_factory=dict)
    pending: list[tuple[int, Operation]] = field(default_factory=list)

    def feed(self, number: int, operation: Operation) -> None:
        if operation.kind in NAME_CHANGES or operation.kind in DATA_CHANGES:
            self.pending.append((number, operation))
        elif operation.kind == "fsync":
            done = [entry for entry in self.pending if entry[1].kind in DATA_CHANGES and entry[1].inode == operation.inode]
            self._make_durable(done)
        elif operation.kind == "sync":
            done = [
                entry
                for entry in self.pending
                if entry[1].kind in NAME_CHANGES and posixpath.dirname(entry[1].path) == operation.path
            ]
            self._make_durable(done)

    def _make_durable(self, done: list[tuple[int, Operation]]) -> None:
        for _, operation in done:
            if operation.kind in NAME_CHANGES:
                apply_name(self.names, operation)
            else:
                content = bytearray(self.content.get(operation.inode, b""))
                apply_data(content, operation, KEEP)
                self.content[operation.inode] = bytes(content)
        gone = {number for number, _ in done}
        self.pending = [entry for entry in self.pending if entry[0] not in gone]

    def state(self, choices: dict[int, str], otherwise: str) -> dict[str, bytes]:
        """The files, when each pending operation meets its choice."""
        names = dict(self.names)
        changed: dict[int, bytearray] = {}
        for number, operation in self.pending:
            choice = choices.get(number, otherwise)
            if choice == DROP:
                continue
            if operation.kind in NAME_CHANGES:
                apply_name(names, operation)
            else:
                if operation.inode not in changed:
                    changed[operation.inode] = bytearray(self.content.get(operation.inode, b""))
                apply_data(changed[operation.inode], operation, choice)
        return {
            path: bytes(changed[inode]) if inode in changed else self.content.get(inode, b"") for path, inode in names.items()
        }


def apply_name(names: dict[str, int], operation: Operation) -> None:
    if operation.kind == "create":
        names[operation.path] = operation.inode
    elif operation.kind == "unlink":
        names.pop(operation.path, None)
    else:
        names.pop(operation.path, None)
        names[operation.target] = operation.inode


def apply_data(content: bytearray, operation: Operation, choice: str) -> None:
    if operation.kind == "truncate":
        if operation.size < len(content):
            del content[operation.size :]
        else:
            content.extend(bytes(operation.size - len(content)))
        return
    start, data = operation.position, operation.data
    end = start + len(data)
    if end > len(content):
        content.extend(bytes(end - len(content)))
    if choice == FIRST_PAGE:
        data = data[: PAGE - start % PAGE]
    elif choice == LAST_PAGE:
        kept_from = max(start, (end - 1) // PAGE * PAGE)
        start, data = kept_from, data[kept_from - start :]
    if choice != SIZE_ONLY:
        content[start : start + len(data)] = data


def before(state: State) -> Durable:
    """A directory at rest: everything in it is durable. Inodes are those that a recording disk gives the same state."""
    names = {path: number for number, path in enumerate(state, 1)}
    return Durable(names, {names[path]: data for path, data in state.items()})


def process_deaths(initial: State, trace: Sequence[Operation]) -> Iterator[Crash]:
    """After each operation; and in each write, a few cuts."""
    names, content = before(initial).names, dict(before(initial).content)
    for number, operation in enumerate(trace):
        if operation.kind == "write":
            size = len(operation.data)
            for cut in sorted({1, 11, 12, 17, 61, size // 2, size - 1}):
                if 0 < cut < size:
                    part = bytearray(content.get(operation.inode, b""))
                    apply_data(
                        part, Operation("write", operation.path, position=operation.position, data=operation.data[:cut]), KEEP
                    )
                    files = {
                        path: bytes(part) if inode == operation.inode else content.get(inode, b"")
                        for path, inode in names.items()
                    }
                    yield Crash(number, f"in {operation}, {cut} bytes of it done", files)
        if operation.kind in NAME_CHANGES:
            apply_name(names, operation)
        elif operation.kind in DATA_CHANGES:
            changed = bytearray(content.get(operation.inode, b""))
            apply_data(changed, operation, KEEP)
            content[operation.inode] = bytes(changed)
        else:
            continue
        yield Crash(number + 1, f"after {operation}", {path: content.get(inode, b"") for path, inode in names.items()})


def power_failures(
    initial: State, trace: Sequence[Operation], rng: random.Random, subsets: int, singles: int | None = None
) -> Iterator[Crash]:
    """After each operation: all pending ones kept, all dropped, each alone kept, each alone dropped or kept in part, and random subsets.

    `singles` bounds for how many of the pending operations the "each alone" is done; the newest come first.
    """
    durable = before(initial)
    for number, operation in enumerate([*trace, Operation("end", "")]):
        yield from _failures(durable, number, rng, subsets, singles)
        durable.feed(number, operation)


def _failures(durable: Durable, number: int, rng: random.Random, subsets: int, singles: int | None) -> Iterator[Crash]:
    pending = durable.pending
    yield Crash(number, "all kept", durable.state({}, KEEP))
    if not pending:
        return
    yield Crash(number, "all dropped", durable.state({}, DROP))
    chosen = (
        pending if singles is None or len(pending) <= singles else [*pending[-singles // 2 :], *rng.sample(pending, singles // 2)]
    )
    for at, operation in chosen:
        yield Crash(number, f"only {at} {operation} kept", durable.state({at: KEEP}, DROP))
        for choice in _partial(operation):
            yield Crash(number, f"only {at} {operation}: {choice}", durable.state({at: choice}, KEEP))
    for _ in range(subsets if len(pending) > 1 else 0):
        weight = rng.random()
        choices = {at: rng.choice(_partial(operation)) if rng.random() < weight else KEEP for at, operation in pending}
        yield Crash(number, f"random: {choices}", durable.state(choices, KEEP))


def _partial(operation: Operation) -> list[str]:
    """What else may become of an operation than to be kept."""
    if operation.kind != "write":
        return [DROP]
    crosses = operation.position // PAGE != (operation.position + len(operation.data) - 1) // PAGE
    return [DROP, SIZE_ONLY, FIRST_PAGE, LAST_PAGE] if crosses else [DROP, SIZE_ONLY]
