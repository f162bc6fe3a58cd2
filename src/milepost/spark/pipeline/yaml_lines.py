"""A YAML text with the line of each of its values, so that a mistake can be found by whoever made it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from milepost.errors import InvalidArgument
from milepost.spark.pipeline.file_schema import Mistake, Path


class YamlText:
    def __init__(self, text: str, where: str):
        import yaml

        self.where = where
        self._lines: dict[Path, int] = {}
        self.twice: list[Mistake] = []
        """Keys that stand twice in one mapping, of which YAML would drop the first."""
        try:
            self.content: Any = yaml.safe_load(text)
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise InvalidArgument(f"{where}: not YAML: {' '.join(str(error).split())}") from error
        if root is not None:
            for path, line in self._walk(root, ()):
                self._lines[path] = line

    def _walk(self, node: Any, path: Path) -> Iterator[tuple[Path, int]]:
        yield path, node.start_mark.line + 1
        if node.id == "sequence":
            for number, each in enumerate(node.value):
                yield from self._walk(each, (*path, number))
        elif node.id == "mapping":
            seen = set()
            for key, value in node.value:
                below = (*path, str(key.value))
                if key.value in seen:
                    self.twice.append((below, "stands there twice"))
                seen.add(str(key.value))
                yield from self._walk(value, below)
                yield below, key.start_mark.line + 1

    def line(self, path: Path) -> int:
        """Of the value, or of the nearest one around it."""
        while path not in self._lines and path:
            path = path[:-1]
        return self._lines.get(path, 1)

    def place(self, path: Path) -> str:
        return f"{self.where}:{self.line(path)}"
