"""The analyser: raw trees (engine/sql/ast) -> analysed trees (tree.py), by PostgreSQL's rules (its parse_analyze).

    environment   catalog and search path; `Environment`
    dispatch      maps a raw node, of an expression or a statement, to the function that analyses it
    expressions, comparisons, calls, aggregates, subscripts       the kinds of expression
    resolve, coerce, common_types, typeinfo, typenames, literals  types: operators, functions, casts, literals
    scope, state  names, and the state of one query level
    from_clause, targets, clauses, select, set_operations, with_clause, views       queries
    search_cycle    SEARCH and CYCLE;  column_definitions, json_records  calls in FROM with given columns
    domains, declared    domains; the domain or row type of an expression;  routines  user-defined functions
    collations, collation_needs, derived_collations, collated_trees, collated_functions    derives collations, and
                                                                                           rewrites the tree for them
    sortable, references, assignments, json_rows, hstore_rows, errors    orders, dependencies, parts of columns, rows,
                                                                         positions
    changes, merge, set_clause, conflicts, updatable, rules    INSERT, UPDATE, DELETE, MERGE; rules of tables and views
    policies, trigger_conditions, rule_actions    the conditions of policies and triggers; rules

An error has the SQLSTATE, message, hint and position of PostgreSQL 15. Everything that costs more than the walk itself
is cached: resolution by name and types, views and table rules by catalog.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog.schema import Table, View
from catalog.types.base import TypeRef
from catalog.types.oids import UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze import (
    calls,
    changes,
    collations,
    comparisons,
    expressions,
    merge,
    rule_actions,
    select,
    subscripts,
)
from engine.sql.analyze.collation_needs import needs_collations
from engine.sql.analyze.dispatch import change_statement, select_query
from engine.sql.analyze.domains import base_types, given_domains
from engine.sql.analyze.environment import Environment, inner_environment
from engine.sql.analyze.errors import fail
from engine.sql.analyze.routines import expanded_expression
from engine.sql.analyze.rules import bind_expression
from engine.sql.analyze.state import ParameterNames, Shared, State
from engine.sql.analyze.typenames import resolve_type, type_from_text
from engine.sql.tree_walk import walk

__all__ = [
    "Environment", "Shared", "analyze", "analyze_expression", "inner_environment", "resolve_type",
    "runnable_expression",
    "statement_parameters", "type_from_text",
]  # fmt: skip

_LOADED = (
    calls,
    changes,
    comparisons,
    expressions,
    merge,
    rule_actions,
    select,
    subscripts,
)  # each registers the nodes that it analyses


def analyze(
    statement: ast.Node,
    environment: Environment,
    parameter_types: Sequence[int] = (),
    literals: int = 0,
    names: ParameterNames | None = None,
) -> tree.Analyzed:
    """Analyses SELECT, VALUES, INSERT, UPDATE or DELETE.

    `parameter_types` are the OIDs that the client gave for $1, $2, .... 0 stands for a type to infer, with 42P18 if
    nothing determines it. `unknown` is the type of a quoted literal, which differs from 0 in a cast to a domain.
    `literals`: as in the result. `names`: the names that stand for parameters, as in the body of a function. Raises
    SqlError with positions that count characters of the parsed text.
    """
    shared = Shared(environment, base_types(tuple(parameter_types)))
    shared.domains = given_domains(environment.catalog, parameter_types)
    shared.routine = names
    state = State(shared)
    analysed: tree.Statement
    if isinstance(statement, ast.SelectStmt):
        analysed = select_query(state, statement, settle=True)
    else:
        analysed = change_statement(state, statement)
    types = _parameter_types(shared, analysed) if shared.parameters else ()
    declared = tuple(map(shared.get_declared, range(1, len(types) + 1))) if shared.domains else ()
    relations, written, locked = tuple(shared.relations), tuple(shared.written), tuple(shared.locked)
    collated = needs_collations(environment.catalog, relations, shared.collated)
    if collated:
        collations.Collator(environment.catalog).statement(analysed)  # for its errors
    return tree.Analyzed(
        analysed, types, relations, written, locked, _asks_table_oids(shared), declared, collated, literals=literals
    )


def _asks_table_oids(shared: Shared) -> bool:
    """Whether the statement, or a view that it reads, uses tableoid."""
    views = (shared.environment.catalog.get(oid) for oid in shared.relations)
    return shared.table_oids or any(isinstance(item, View) and "tableoid" in item.query for item in views)


def _parameter_types(shared: Shared, analysed: object) -> tuple[int, ...]:
    """Every parameter's type; 42P18 for one that nothing determined, 42P08 for one determined too late."""
    types = []
    for number in range(1, max(shared.parameters) + 1):
        oid = shared.parameters.get(number, 0)
        if oid in (0, UNKNOWN) and (number in shared.parameters or shared.routine is None):
            fail("42P18", f"could not determine data type of parameter ${number}")
        types.append(oid)
    if shared.unresolved > 0:
        for item in walk(analysed):
            if isinstance(item, tree.Param) and item.type.oid == UNKNOWN:
                fail("42P08", f"could not determine data type of parameter ${item.number}", item.location)
    return tuple(types)


def runnable_expression(
    node: ast.Node,
    environment: Environment,
    table: Table | None = None,
    target_type: TypeRef | None = None,
    kind: str = "",
    shared: Shared | None = None,
) -> tree.Expr:
    """The expression in a form that the user of `environment` can run: without COLLATE, and with the bodies of
    functions."""
    found = expanded_expression(analyze_expression(node, environment, table, target_type, kind, shared), environment)
    return collations.collate_expression(found, environment.catalog, table)


def analyze_expression(
    node: ast.Node,
    environment: Environment,
    table: Table | None = None,
    target_type: TypeRef | None = None,
    kind: str = "",
    shared: Shared | None = None,
) -> tree.Expr:
    """Analyses an expression outside of any query: a default, check, index expression, generated column, USING.

    Columns are those of `table`, as range entry 0. The value is cast to `target_type` by assignment (42804 if it cannot
    be). `kind` names the place for errors and decides what is allowed there: 'DEFAULT expressions',
    'check constraints', 'index expressions', 'index predicates', 'column generation expressions',
    'transform expressions', 'EXECUTE parameters'. `shared`: of the statement whose parameters it may use.
    """
    if not kind:
        kind = "check constraints" if table is not None else "DEFAULT expressions"
    return bind_expression(node, environment, table, target_type, kind, shared)


def statement_parameters(environment: Environment, types: Sequence[int]) -> Shared:
    """The parameters of a statement, for `analyze_expression`; `types` as for `analyze`. Each expression may add to the
    types in `parameters`."""
    return Shared(environment, base_types(tuple(types)))
