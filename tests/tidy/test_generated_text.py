"""What is to be known of generated SQL is asked of its nodes (catalog/duckdb), and of the generated Python of row plans
what is noted where it is written (engine/execute/code.py): nobody searches their text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.sources import modules, nodes

SEARCHES = frozenset(
    [
        "startswith",
        "endswith",
        "count",
        "find",
        "index",
        "partition",
        "rpartition",
        "split",
        "rsplit",
        "removeprefix",
        "removesuffix",
        "replace",
    ]
)
"""Methods of texts that look for something in them."""
PATTERNS = frozenset(("match", "fullmatch", "search", "findall", "finditer", "sub"))
HOLDERS = frozenset(("sql", "scale", "form", "duckdb_type", "result_duckdb"))
"""Names and attributes that hold SQL, or a type of DuckDB."""
ARGUMENTS = frozenset(("arguments", "argument"))
"""The same in the DuckDB side of a function."""
PYTHON = frozenset(("source", "sources", "guard", "guards", "call", "_lines"))
"""Names and attributes that hold generated Python. `function.source` is PostgreSQL's name of a function."""
MADE_HERE = {("engine/columnar/generate/state.py", "text_of(sql).replace")}
"""Where text is made: its braces are doubled for str.format."""


def _holds_sql(node: ast.expr, names: frozenset[str]) -> bool:
    """Whether an expression is generated SQL, or text that is made of it."""
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name)
            and node.func.id in ("text_of", "str")
            and any(node.func.id == "text_of" or _holds_sql(argument, names) for argument in node.args)
        )
    if isinstance(node, ast.Subscript):
        return _holds_sql(node.value, names)
    if isinstance(node, ast.Attribute):
        return node.attr in names and ast.unparse(node) not in ("function.source", "aggregate.function.source")
    return isinstance(node, ast.Name) and node.id in names


def searches(tree: ast.Module, names: frozenset[str]) -> Iterator[str]:
    """The places of a module where SQL is searched."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in SEARCHES and _holds_sql(node.func.value, names):
                yield ast.unparse(node.func)
            elif node.func.attr in PATTERNS and any(_holds_sql(argument, names) for argument in node.args):
                yield ast.unparse(node)
        elif isinstance(node, ast.Compare) and _holds_sql(node.comparators[0], names):
            yield from [ast.unparse(node)] * isinstance(node.ops[0], ast.In | ast.NotIn)


def _sides(tree: ast.Module) -> Iterator[ast.Module]:
    """The functions of a module that are given SQL."""
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef) and "Sql" in ast.unparse(node.args):
            yield ast.Module([node], [])


def test_generated_sql_is_not_searched() -> None:
    found = {(path, place) for path, tree in modules("engine/columnar/generate") for place in searches(tree, HOLDERS)}
    assert found == MADE_HERE


def test_functions_do_not_search_their_arguments() -> None:
    found = [
        (path, place)
        for path, tree in modules("catalog/functions")
        for side in _sides(tree)
        for place in searches(side, HOLDERS | ARGUMENTS)
    ]
    assert not found


def test_generated_python_is_not_searched() -> None:
    found = [(path, place) for path, tree in modules("engine/execute") for place in searches(tree, PYTHON)]
    assert not found


@pytest.mark.parametrize(
    "source",
    ['guard.endswith("is not None")', '"large" in found.source', "code.source.count(METERED)", '"(" in source'],
)
def test_a_search_of_python_is_noticed(source: str) -> None:
    assert list(searches(ast.parse(source), PYTHON))


def test_names_of_functions_are_no_python() -> None:
    assert not list(searches(ast.parse('function.source.startswith("record_")'), PYTHON))


@pytest.mark.parametrize(
    "source",
    [
        'piece.sql.startswith("NULL::")',
        'form[:-2].endswith("[]")',
        "_NAME.fullmatch(piece.sql)",
        '"lambda " in sql',
        'text_of(piece.sql).count("x")',
        'str(piece.form).startswith("DECIMAL")',
        "operand.reference not in operand.sql",
    ],
)
def test_a_search_is_noticed(source: str) -> None:
    assert list(searches(ast.parse(source), HOLDERS))


def test_a_side_that_searches_is_noticed() -> None:
    source = "def side(arguments: Sequence[Sql], types):\n    return _WORD.fullmatch(arguments[0])"
    (side,) = _sides(ast.parse(source))
    assert list(searches(side, HOLDERS | ARGUMENTS))


def test_questions_to_nodes_are_no_searches() -> None:
    source = "piece.is_null\nisinstance(form, ListType)\nform in (BIGINT, UBIGINT)\nname.startswith('x')\nsql in known"
    assert not list(searches(ast.parse(source), HOLDERS))
