"""SQLSTATEs are written as the manual has them, five characters: each has to be one of PostgreSQL's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from psycopg import errors

from tests.tidy.sources import modules, nodes

PRODUCT = ("catalog", "engine", "wire", "replication", "shoal")
RAISING = frozenset(("SqlError", "fail", "refuse_as", "sql_error_call", "raising", "raising_with"))
"""What is given a SQLSTATE as its first argument."""
NOT_ERRORS = frozenset(("00000", "01000", "01006", "01007"))
"""Of notices and warnings, for which psycopg has no exceptions."""
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")


def sqlstates(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in nodes(tree):
        if isinstance(node, ast.Call) and _name(node.func) in RAISING and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield node.lineno, first.value


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def is_postgresqls(sqlstate: str) -> bool:
    if sqlstate in NOT_ERRORS:
        return True
    try:
        return bool(_SQLSTATE.fullmatch(sqlstate)) and errors.lookup(sqlstate) is not None
    except KeyError:
        return False


def test_every_sqlstate_is_postgresqls() -> None:
    found = [(path, line, state) for path, tree in modules(*PRODUCT) for line, state in sqlstates(tree)]
    assert len(found) > 1000
    assert not [item for item in found if not is_postgresqls(item[2])]


def test_another_sqlstate_is_noticed() -> None:
    (found,) = sqlstates(ast.parse('raise errors.SqlError("42P99", "no such code")'))
    assert not is_postgresqls(found[1])
