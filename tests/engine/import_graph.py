"""Which module of the product imports which, by the sources: on loading, inside functions, or for annotations alone."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("catalog", "engine", "replication", "shoal", "wire")
Kind = Literal["loading", "function", "annotation"]


@dataclass(frozen=True)
class Import:
    target: str
    kind: Kind
    line: int


Graph = Mapping[str, list[Import]]


def graph_of(root: pathlib.Path = ROOT, packages: tuple[str, ...] = PACKAGES) -> Graph:
    """The imports of each module among each other."""
    paths = {_name(root, path): path for package in packages for path in (root / package).rglob("*.py")}
    return {
        name: [item for item in _imports(path, paths) if item.target != name] for name, path in sorted(paths.items())
    }


def _name(root: pathlib.Path, path: pathlib.Path) -> str:
    return str(path.relative_to(root).with_suffix("")).replace("/", ".").removesuffix(".__init__")


def _imports(path: pathlib.Path, known: Mapping[str, pathlib.Path]) -> Iterator[Import]:
    for node, kind in _statements(ast.parse(path.read_text(encoding="utf-8")), "loading"):
        if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if (target := inner if inner in known else node.module) in known:
                    yield Import(target, kind, node.lineno)
        elif isinstance(node, ast.Import):
            yield from (Import(alias.name, kind, node.lineno) for alias in node.names if alias.name in known)


def _statements(node: ast.AST, kind: Kind) -> Iterator[tuple[ast.AST, Kind]]:
    for child in ast.iter_child_nodes(node):
        yield child, kind
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and kind == "loading":
            yield from _statements(child, "function")
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for part in child.body:
                yield part, "annotation"
        else:
            yield from _statements(child, kind)


def circles(graph: Graph, counts: Callable[[Import], bool]) -> list[list[str]]:
    """The modules that import each other in a circle, by those imports that count: Tarjan's algorithm, with a stack of
    its own."""
    targets = {name: [item.target for item in imports if counts(item)] for name, imports in graph.items()}
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in graph:
        pending = [] if root in number else [(root, iter(targets[root]))]
        while pending:
            name, rest = pending[-1]
            if name not in number:
                number[name] = low[name] = len(number)
                stack.append(name)
            for target in rest:
                if target not in number:
                    pending.append((target, iter(targets[target])))
                    break
                if target in stack:
                    low[name] = min(low[name], number[target])
            else:
                pending.pop()
                if pending:
                    low[pending[-1][0]] = min(low[pending[-1][0]], low[name])
                if low[name] == number[name]:
                    place = stack.index(name)
                    found.append(sorted(stack[place:]))
                    del stack[place:]
    return [circle for circle in found if len(circle) > 1]
