"""Files of a partition directory that were on their way in or out when the process ended.

    suffix       what it was                                     what becomes of it
    .deleted     renamed by retention, a cut or a cleaning       removed
    .cleaned     written by a cleaning that had not ended        removed, and with it every `.swap` at or above the lowest of them
    .swap        complete, about to take the place of others     what it replaces goes, and it gets its final name

Each step is durable before the next: another crash finds one of these states again.
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.files import Disk, remove_file
from milepost.segment import names


def settle_files(disk: Disk, directory: str, listing: list[str], end_of_swap: Callable[[int], int]) -> None:
    """`end_of_swap`: the offset behind the last one of the `.swap` segment with a base offset."""
    _drop_leftovers(disk, directory, listing)
    _finish_swaps(disk, directory, end_of_swap)


def _drop_leftovers(disk: Disk, directory: str, listing: list[str]) -> None:
    for name in listing:
        if name.endswith(names.DELETED) and not name.endswith(".checkpoint.deleted"):
            remove_file(disk, f"{directory}/{name}")
    cleaned = [name for name in listing if name.endswith(names.CLEANED)]
    bases = [base for base in map(names.offset_of, cleaned) if base is not None]
    if bases:
        for name in listing:
            base = names.offset_of(name)
            if name.endswith(names.SWAP) and base is not None and base >= min(bases):
                remove_file(disk, f"{directory}/{name}")
        # A `.swap` that came back without its `.cleaned` would look complete.
        disk.sync_directory(directory)
    for name in cleaned:
        remove_file(disk, f"{directory}/{name}")


def _finish_swaps(disk: Disk, directory: str, end_of_swap: Callable[[int], int]) -> None:
    swaps = [name for name in disk.listdir(directory) if name.endswith(names.SWAP)]
    if not swaps:
        return
    complete = [name for name in swaps if name.endswith(names.LOG + names.SWAP)]
    bases = [base for base in map(names.offset_of, complete) if base is not None]
    for base, end in [(base, max(end_of_swap(base), base + 1)) for base in bases]:
        _remove_between(disk, directory, base, end, keep=swaps)
    # First the old files go, then the new logs get their names, then the new indexes.
    for step in (complete, [name for name in swaps if name not in complete]):
        disk.sync_directory(directory)
        for name in step:
            disk.rename(f"{directory}/{name}", f"{directory}/{name[: -len(names.SWAP)]}")
    disk.sync_directory(directory)


def _remove_between(disk: Disk, directory: str, base: int, end: int, keep: list[str]) -> None:
    for name in disk.listdir(directory):
        offset = names.offset_of(name)
        if name not in keep and offset is not None and base <= offset < end:
            remove_file(disk, f"{directory}/{name}")
