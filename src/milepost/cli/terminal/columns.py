"""Rows of text in columns: numbers to the right, words to the left, two spaces between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from milepost.codec.text import shown


def write_columns(write: Callable[[str], None], heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """None is shown as a dash. Nothing is shown of what could move the cursor of a terminal."""
    texts = [["-" if cell is None else shown(str(cell)) for cell in row] for row in rows]
    columns = [[row[at] for row in rows if row[at] is not None] for at in range(len(heads))]
    is_numeric = [bool(column) and all(isinstance(cell, int) for cell in column) for column in columns]
    lines = [list(heads), *texts]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    for line in lines:
        sized = zip(line, widths, is_numeric, strict=True)
        write("  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in sized).rstrip())
