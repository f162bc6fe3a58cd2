"""Which modules import each other in a circle.

An import counts wherever it stands: at the top, inside a function, or under TYPE_CHECKING, since who wants to understand a module reads
what its types are too. `from package import module` is an import of both. That importing a module runs its package's file does not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping


def imports(source: str) -> set[str]:
    """What a module may import, by absolute names: some of them are no modules but what is in one."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "relative imports are not used here"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Of each module, by its name, which others it imports."""
    return {name: (imports(source) & sources.keys()) - {name} for name, source in sources.items()}


def circles(graph: Mapping[str, Iterable[str]]) -> set[frozenset[str]]:
    """The modules that reach each other, in sets that have nothing in common."""
    reached = {name: reached_from(name, graph) for name in graph}
    return {
        frozenset(other for other in others if name in reached[other]) for name, others in reached.items() if name in others
    }


def reached_from(name: str, graph: Mapping[str, Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    coming = list(graph[name])
    while coming:
        module = coming.pop()
        if module not in reached:
            reached.add(module)
            coming += graph[module]
    return reached
