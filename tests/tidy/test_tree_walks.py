"""Only engine/sql/tree_walk.py knows what is under a node, and what makes a tree volatile."""

from __future__ import annotations

import ast

import pytest

from tests.tidy.sources import functions, modules, names, nodes

WALKER = "engine/sql/tree_walk.py"
OF_RECORDS = {
    "engine/checkpoint/manifest.py": "a manifest, as JSON",
    "engine/ddl/branches.py": "schema objects, which a branch copies",
    "engine/ddl/roles.py": "the names of a role's attributes",
    "engine/statements/plpgsql/never_null.py": "statements of PL/pgSQL, which are no nodes",
    "engine/sql/implication.py": "two trees side by side, which may differ in parameters",
}
"""Who looks at the fields of records for another reason."""
_ASK_FIELDS = frozenset(("fields", "is_dataclass", "__dataclass_fields__"))


def looks_at_fields(tree: ast.Module) -> bool:
    """Whether a module asks records for their fields."""
    imported = {
        name.name
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        for name in node.names
    }
    attributes = {
        node.attr
        for node in nodes(tree)
        if isinstance(node, ast.Attribute)
        and (
            node.attr == "__dataclass_fields__" or (isinstance(node.value, ast.Name) and node.value.id == "dataclasses")
        )
    }
    return bool((imported | attributes) & _ASK_FIELDS)


def asks_for_volatility(tree: ast.Module) -> list[str]:
    """The functions of a module that ask both for volatile functions and for values of sequences."""
    return [item.name for item in functions(tree) if {"NextValueExpr", "volatility"} <= names(item)]


def test_one_walker() -> None:
    found = {path for path, tree in modules("engine") if looks_at_fields(tree)}
    assert found == {WALKER, *OF_RECORDS}


def test_one_answer_to_what_is_volatile() -> None:
    found = {path: asked for path, tree in modules("engine") if (asked := asks_for_volatility(tree))}
    assert found == {WALKER: ["changes"]}


@pytest.mark.parametrize(
    "source",
    [
        "from dataclasses import fields\ndef parts(node):\n    return [getattr(node, x.name) for x in fields(node)]",
        "import dataclasses\ndef parts(node):\n    return dataclasses.fields(node)",
        "def parts(node):\n    return [getattr(node, name) for name in node.__dataclass_fields__]",
    ],
)
def test_another_walker_is_noticed(source: str) -> None:
    assert looks_at_fields(ast.parse(source))
    assert not looks_at_fields(ast.parse("from dataclasses import field, replace\nx = node.fields"))


def test_another_answer_is_noticed() -> None:
    source = (
        "def again(node):\n    return any(isinstance(item, tree.NextValueExpr) or (isinstance(item, tree.FuncExpr) "
        "and item.function.volatility == 'v') for item in walk(node))"
    )
    assert asks_for_volatility(ast.parse(source)) == ["again"]
