"""The sources of the product as Python trees."""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator
from functools import cache

ROOT = pathlib.Path(__file__).resolve().parents[2]


@cache
def parsed(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """(path from the root, tree) of every module in these folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), parsed(path)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def names(tree: ast.AST) -> set[str]:
    """The names and attributes in a tree."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
