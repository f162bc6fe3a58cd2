"""Public functions that nobody calls but tests: a guard that exists and that nobody calls guards nothing.

A function counts as called where its name is read, in a module that may mean it:

    the module itself, or one that imports it, however indirectly
    one that knows an interface with that name: a Protocol, or a class that others are made from

What only uncalled functions read is uncalled, too, and so is a function that only functions of its own name read.

What is handed to another project's code is called there:

    a function with a decorator of that project (a command of click, a fixture of pytest)
    the methods of a class that is made from one of that project's (a data source of Spark)
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping

from tests.import_circles import import_graph, reached_from

Function = tuple[str, str]
"""Its module and its name."""


def functions(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, name) of the public functions, and of the public methods of classes."""
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    defined = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(node.lineno, node.name) for node in defined if not node.name.startswith("_")]


def foreign_names(tree: ast.Module, modules: Collection[str]) -> set[str]:
    """Names that the module has from other projects. Cython's are not: what they decorate is called from here as ever."""
    own = {name.partition(".")[0] for name in modules} | {"cython"} | sys.stdlib_module_names
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {
                (each.asname or each.name).partition(".")[0] for each in node.names if each.name.partition(".")[0] not in own
            }
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in own:
            found |= {each.asname or each.name for each in node.names}
    return found


def first_name(node: ast.expr) -> str:
    """`click` of `click.command("dump")`."""
    return ast.unparse(node).partition("(")[0].partition("[")[0].partition(".")[0]


def handed_over(trees: Mapping[str, ast.Module]) -> set[Function]:
    """What other projects call."""
    classes = [(module, node) for module, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    foreign = {module: foreign_names(tree, trees) for module, tree in trees.items()}
    bases: set[str] = set()
    while True:
        found = {node.name for module, node in classes if any(first_name(base) in foreign[module] | bases for base in node.bases)}
        if found == bases:
            break
        bases = found
    methods = {
        (module, each.name)
        for module, node in classes
        if node.name in bases
        for each in node.body
        if isinstance(each, ast.FunctionDef)
    }
    decorated = {
        (module, node.name)
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(first_name(each) in foreign[module] for each in node.decorator_list)
    }
    return methods | decorated


def names_read(tree: ast.Module) -> Iterator[tuple[str, frozenset[str]]]:
    """Identifiers and attributes that are read, each with the names of the functions around it."""
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, inside = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside |= {node.name}
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.id if isinstance(node, ast.Name) else node.attr, inside
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]


def interfaces(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """By the name of a method the modules that have it in a Protocol, or in a class that others are made from."""
    classes = [(name, node) for name, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    bases = {ast.unparse(base).partition("[")[0] for _, node in classes for base in node.bases}
    found: dict[str, set[str]] = {}
    for module, node in classes:
        if node.name in bases or any(ast.unparse(base).startswith("Protocol") for base in node.bases):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.setdefault(member.name, set()).add(module)
    return found


def uncalled(
    sources: Mapping[str, str], modules: Collection[str], called: Collection[Function] = ()
) -> list[tuple[str, int, str]]:
    """(module, line, name) of what nobody in `sources` calls of `modules`; what is in `called` is called from outside."""
    trees = {name: ast.parse(source) for name, source in sources.items()}
    graph = import_graph(sources)
    reached = {name: {name, *reached_from(name, graph)} for name in sources}
    outside = handed_over(trees) | {*called}
    defined = [
        (module, line, name) for module in modules for line, name in functions(trees[module]) if (module, name) not in outside
    ]
    known = interfaces(trees)
    readers: dict[str, set[tuple[str, frozenset[str]]]] = {name: set() for _, _, name in defined}
    for module, tree in trees.items():
        for name, inside in names_read(tree):
            if name in readers and (name not in inside or (module, name) in outside):
                readers[name].add((module, inside))

    def may_mean(reader: str, module: str, name: str) -> bool:
        return module in reached[reader] or bool(known.get(name, set()) & reached[reader])

    dead: set[Function] = set()
    while True:
        found = {
            (module, name)
            for module, _, name in defined
            if not any(
                may_mean(reader, module, name) and not any((reader, outer) in dead for outer in inside)
                for reader, inside in readers[name]
            )
        }
        if found == dead:
            return sorted(each for each in defined if (each[0], each[2]) in dead)
        dead = found
