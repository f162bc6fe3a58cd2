"""Rows of text in columns: numbers to the right, words to the left, two spaces between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.inspect.decoders import shown


def write_columns(write: Callable[[str], None], heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """None is shown as a dash. Nothing is shown of what could move the cursor of a terminal."""
    texts = [["-" if cell is None else shown(str(cell)) for cell in row] for row in rows]
    numeric = [all(isinstance(cell, int) or cell is None for cell in column) for column in zip(*rows, strict=True)] or [False] * len(heads)
    widths = [max(len(line[at]) for line in [list(heads), *texts]) for at in range(len(heads))]
    for line in [list(heads), *texts]:
        cells = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric, strict=True)]
        write("  ".join(cells).rstrip())
