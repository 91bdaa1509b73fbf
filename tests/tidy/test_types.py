"""OIDs of types are written in catalog/types/oids.py, and so is every set of them that two modules need."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest

from catalog.types import oids, pg_type_rows
from catalog.types.user import FIRST_ADDED_OID
from tests.tidy.sources import modules, names, nodes

PRODUCT = ("catalog", "engine", "wire", "replication", "shoal")
NAMES = {name: value for name, value in vars(oids).items() if type(value) is int}
SETS = {name: value for name, value in vars(oids).items() if isinstance(value, frozenset)}
TYPES = frozenset(NAMES.values()) | {row.oid for row in pg_type_rows}
UNMISTAKABLE = frozenset(oid for oid in TYPES if 600 <= oid < FIRST_ADDED_OID) - {1000, 4096}
"""Numbers that would be a coincidence if they were something else."""
OF_TYPES = frozenset(("oid", "declared", "element_oid", "result_type", "type_oid", "declared_oid"))
"""What attributes and variables with an OID of a type are called."""
NOT_TYPES = {"catalog/rows.py": {16, 17}}
"""Pairs of numbers that are something else: storage ids."""


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value in TYPES


def several(node: ast.AST) -> list[ast.expr]:
    """The items of a tuple, a set or a list, the keys of a dictionary."""
    if isinstance(node, ast.Tuple | ast.Set | ast.List):
        return node.elts
    return [key for key in node.keys if key is not None] if isinstance(node, ast.Dict) else []


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def says_type(node: ast.AST) -> bool:
    return _name(node) in OF_TYPES


def raw_oids(tree: ast.Module) -> Iterator[int]:
    """The lines with numbers that are OIDs of types: compared with one, of a TypeRef, nothing but such in a set, or
    such that they can be nothing else."""
    for node in nodes(tree):
        found: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            found = [item for part in parts for item in (part, *several(part))] if any(map(says_type, parts)) else []
        elif isinstance(node, ast.Call) and _name(node.func).endswith("TypeRef"):
            found = list(node.args[:1])
        elif len(items := several(node)) > 1 and all(map(is_number, items)):
            found = list(items)
        elif isinstance(node, ast.Constant) and node.value in UNMISTAKABLE:
            found = [node]
        yield from (item.lineno for item in found if isinstance(item, ast.Constant) and is_number(item))


def named(node: ast.expr) -> int | None:
    """The OID that a name of catalog/types/oids.py stands for."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "oids":
        return NAMES.get(node.attr)
    return NAMES.get(node.id) if isinstance(node, ast.Name) else None


def sets_of_types(tree: ast.Module) -> list[frozenset[int]]:
    """What stands in braces, in frozenset(...) and behind `in`, if it is several types. What is added to a set that has
    a name is none."""
    found: dict[int, ast.AST] = {}
    added: set[int] = set()
    for node in nodes(tree):
        if isinstance(node, ast.Compare):
            ways = zip(node.ops, node.comparators, strict=True)
            found |= {id(right): right for way, right in ways if isinstance(way, ast.In | ast.NotIn)}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("frozenset", "set"):
            found |= {id(item): item for item in node.args}
        elif isinstance(node, ast.BinOp):
            added |= {id(node.left), id(node.right)}
        elif isinstance(node, ast.Set):
            found[id(node)] = node
    sets = [[named(item) for item in several(node)] for place, node in found.items() if place not in added]
    return [
        frozenset(oid for oid in items if oid is not None) for items in sets if len(items) > 1 and None not in items
    ]


def test_no_raw_oids() -> None:
    found = []
    for path, tree in modules(*PRODUCT):
        if path != "catalog/types/oids.py":
            lines = set(raw_oids(tree))
            if path in NOT_TYPES:
                lines = {line for line in lines if not _is_pair(tree, line, NOT_TYPES[path])}
            found += [f"{path}:{line}" for line in sorted(lines)]
    assert not found


def _is_pair(tree: ast.Module, line: int, numbers: set[int]) -> bool:
    there = [node for node in nodes(tree) if several(node) and getattr(node, "lineno", 0) == line]
    return any({getattr(item, "value", 0) for item in several(node)} == numbers for node in there)


def test_no_set_of_types_is_written_twice() -> None:
    places: dict[frozenset[int | None], list[str]] = defaultdict(list)
    for path, tree in modules(*PRODUCT):
        if path != "catalog/types/oids.py":
            for found in sets_of_types(tree):
                places[found].append(path)
            for node in nodes(tree):
                values = frozenset(map(named, several(node)))
                if values in SETS.values() and not isinstance(node, ast.Dict):
                    places[values].append(path)
    shown = {value: name for name, value in NAMES.items()}
    twice = {
        " ".join(sorted(shown[oid] for oid in found)): where
        for found, where in places.items()
        if len(where) > 1 or found in SETS.values()
    }
    assert not twice


def test_every_set_is_asked_for() -> None:
    used = set[str]().union(*(names(tree) for path, tree in modules(*PRODUCT) if path != "catalog/types/oids.py"))
    assert used >= SETS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "x = type_.oid == 16",
        "x = oid in (20, 21, 23)",
        "x = frozenset((20, 21, 23))",
        "x = {25: 'text', 1043: 'varchar'}",
        "x = TypeRef(2249)",
        "x = oid in KNOWN or oid == 705",
        "x = {'now': ('timestamptz_date', 1082)}",
    ],
)
def test_a_raw_oid_is_noticed(source: str) -> None:
    assert set(raw_oids(ast.parse(source))) == {1}


def test_a_second_set_is_noticed() -> None:
    source = "A = frozenset((oids.INT2, INT4, INT8))\nB = oid in (FLOAT4, FLOAT8)\nC = oids.TEXTS | {BOOL, UUID}"
    assert set(sets_of_types(ast.parse(source))) == {oids.INTEGERS, oids.FLOATS}
