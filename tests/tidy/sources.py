"""The sources of the product as Python trees."""

from __future__ import annotations

import ast
import gc
import pathlib
from collections.abc import Iterator
from functools import cache

ROOT = pathlib.Path(__file__).resolve().parents[2]


@cache
def parsed(text: str) -> ast.Module:
    """The tree of a source, which nobody changes. There are millions of nodes that stay: the collector of cycles, which
    their number calls again and again, would find nothing."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """What ast.walk finds in the tree of a source: several tests look at all of it."""
    return tuple(ast.walk(tree))


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """(path from the root, tree) of every module in these folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), parsed(path.read_text())


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def names(tree: ast.AST) -> set[str]:
    """The names and attributes in a tree."""
    found = {node.id for node in nodes(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in nodes(tree) if isinstance(node, ast.Attribute)}
