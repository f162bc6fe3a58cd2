"""Python source as it is generated: lines that remember which field they serve.

The compiled function costs nothing to be precise about damage: the exception's traceback has the line, and the line has the
field. So the fast path carries no names and no positions of its own, and no second, careful parser has to agree with it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any


class Source:
    def __init__(self, signature: str) -> None:
        self.lines = [f"def {signature}:"]
        self.fields = ["", ""]  # line numbers start at 1
        self.names: dict[str, Any] = {}
        self._structs: dict[str, str] = {}

    def add(self, depth: int, text: str, field: str = "") -> None:
        self.lines.append(" " * depth + text)
        self.fields.append(field)

    def name(self, kind: str, value: object) -> str:
        """A name that stands for `value` in the source."""
        name = f"{kind}{len(self.names)}"
        self.names[name] = value
        return name

    def struct(self, letters: str, make: Callable[[str], object]) -> str:
        """The name of the `struct` function for `letters`; one for each layout, however often it occurs."""
        if letters not in self._structs:
            self._structs[letters] = self.name("S", make(letters))
        return self._structs[letters]

    def function(self, filename: str, helpers: dict[str, Any]) -> Any:
        name = self.lines[0][4 : self.lines[0].index("(")]
        namespace = {**helpers, **self.names}
        exec(compile("\n".join(self.lines), filename, "exec"), namespace)
        return namespace[name]

    def field_of(self, trace: TracebackType | None) -> str:
        """The field whose line raised: that of the generated function, which is the first frame of the traceback."""
        return self.fields[trace.tb_lineno] if trace is not None else ""
