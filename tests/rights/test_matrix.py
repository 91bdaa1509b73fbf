"""Rights, cell by cell beside PostgreSQL; and that the matrix has every kind of object and of statement."""

from __future__ import annotations

import dataclasses
from typing import get_args

from catalog.schema import SchemaObject
from engine.ddl import alteration, routines
from engine.sql import ast
from engine.sql.parser import parse
from engine.statements import registry
from tests.oracle import PostgresServer
from tests.rights import matrix
from tests.rights.cases import COVERED, WITHOUT_RIGHTS, Case, cases
from tests.rights.planted import RIGHTS
from tests.server import ShoalServer
from tests.torture.planted import PlantedServer


def test_every_cell_is_as_in_postgresql() -> None:
    with ShoalServer() as shoal, PostgresServer() as postgres:
        found = matrix.run(shoal, postgres)
    assert not found.wrong, "\n".join(found.wrong[:50])
    assert not found.unused, found.unused
    assert found.cells > 15_000


REVEALING = ("DROP TABLE s.t CASCADE", "ALTER TABLE s.t OWNER TO postgres", "ALTER TABLE s.t SET SCHEMA closed",
             "SELECT * FROM s.t", "CHECKPOINT", "ALTER SYSTEM SET log_min_error_statement = 'fatal'")  # fmt: skip


def test_faults_are_noticed() -> None:
    def chosen(case: Case) -> bool:
        return case.statement in REVEALING

    with PostgresServer() as postgres:
        theirs = matrix.outcomes(postgres, "postgres", chosen)
    for fault in RIGHTS:
        with PlantedServer("matrix", fault) as server:
            ours = matrix.outcomes(server, "shoal", chosen)
        assert matrix.compared(ours, theirs, matrix.DIFFERENCES).wrong, fault


def nodes_within(node: object) -> list[ast.Node]:
    """A statement, and the parts of it."""
    if isinstance(node, (tuple, list)):
        return [one for item in node for one in nodes_within(item)]
    if not isinstance(node, ast.Node):
        return []
    assert dataclasses.is_dataclass(node)
    parts = [getattr(node, field.name) for field in dataclasses.fields(node)]
    return [node, *nodes_within(parts)]


def test_every_kind_of_object_is_there() -> None:
    missing = {kind.__name__ for kind in get_args(SchemaObject)} - {kind.__name__ for kind in COVERED}
    assert not missing, f"tests/rights/cases.py has no statements for {missing}"


def test_every_kind_of_statement_is_there() -> None:
    found: list[ast.Node] = []
    for case in cases():
        for statement in parse(case.statement):
            found += nodes_within(statement.tree)
    wanted = {kind.node.__name__ for kind in registry.registered_kinds()}
    met = {type(node).__name__ for node in found}
    assert wanted - met == set(WITHOUT_RIGHTS), (wanted - met) ^ set(WITHOUT_RIGHTS)
    actions = {node.action for node in found if isinstance(node, ast.AlterTableCmd)}
    assert not set(alteration._COMMANDS) - actions
    changes = {node.action for node in found if isinstance(node, ast.AlterFunctionStmt)}
    assert not set(routines._ALTERATIONS) - changes
