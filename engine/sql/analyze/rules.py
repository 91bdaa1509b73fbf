"""The parts of a table's definition that apply to changes: defaults, generated columns, checks.

The catalog stores them as text. They are parsed and analysed for the first statement that needs them, and cached with
the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from catalog.catalog import Catalog
from catalog.derived import DerivedValues
from catalog.partitions import constraint_text
from catalog.schema import Column, Table
from catalog.types.base import TypeRef
from catalog.types.oids import BOOL
from engine.sql import ast, tree
from engine.sql.analyze import coerce
from engine.sql.analyze.collation_needs import is_collated
from engine.sql.analyze.collations import collate_expression
from engine.sql.analyze.dispatch import expression
from engine.sql.analyze.domains import column_rule, domain_default, has_conditions
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.errors import expr_location, fail
from engine.sql.analyze.routines import expanded_expression, inline_call
from engine.sql.analyze.scope import table_item
from engine.sql.analyze.state import Shared, State
from engine.sql.analyze.typeinfo import BOOL_REF, type_name
from engine.sql.analyze.updatable import ViewTarget
from engine.sql.parser import parse_expression
from engine.sql.tree_walk import walk


@dataclass(frozen=True, slots=True)
class TableRules:
    """The analysed expressions of one table. `defaults` is by attnum; columns without one get NULL. `indexed`: the
    expressions of its indexes, if they may call user-defined functions."""

    defaults: dict[int, tree.Expr]
    generated: tuple[tree.Assignment, ...]
    checks: tuple[tuple[str, tree.Expr], ...]
    indexed: tuple[tree.Expr, ...] = ()

    def checks_of_update(self, columns: Iterable[int]) -> tuple[tuple[str, tree.Expr], ...]:
        """The checks of rows in which these columns get values. Checks of domains apply to these columns only."""
        changed = {*columns, *(item.column for item in self.generated)}
        return tuple((name, check) for name, check in self.checks if name or not _column(check).isdisjoint(changed))

    def default(self, column: Column) -> tree.Expr:
        return self.defaults.get(column.number) or tree.Const(None, column.type)


def _column(rule: tree.Expr) -> set[int]:
    return {item.column for item in walk(rule) if isinstance(item, tree.Var)}


_rules: DerivedValues[int, TableRules] = DerivedValues()


def table_rules(table: Table, environment: Environment) -> TableRules:
    """The bound rules of a table."""
    rules = _rules.of(environment.catalog)
    found = rules.get(table.oid)
    if found is None:
        found = rules[table.oid] = _bind(table, environment)
    return found


def with_view_defaults(rules: TableRules, view: ViewTarget, environment: Environment) -> TableRules:
    """The rules of a view's table, with the defaults of the view's columns, and of those of views below it, in place of
    the table's."""
    if view.inner is not None:
        rules = with_view_defaults(rules, view.inner, environment)
    defaults = dict(rules.defaults)
    for column, value in zip(view.view.columns, view.expressions, strict=True):
        text = default_of_view(column, environment.catalog)
        if text is not None and isinstance(value, tree.Var):
            plain = TypeRef(column.type.oid, column.type.typmod)
            defaults[value.column] = bind_text(text, environment, None, plain, "DEFAULT expressions")
    return replace(rules, defaults=defaults)


def default_of_view(column: Column, catalog: Catalog) -> str | None:
    """The default of a view's column: its own, or that of its domain."""
    return domain_default(catalog, column.type) if column.default is None and column.type.domain else column.default


def runnable_rules(table: Table, environment: Environment, defaults: bool = True, asked: bool = True) -> TableRules:
    """The rules in a form that runs outside of a statement: without COLLATE, with the bodies of functions, which the
    user of `environment` must be allowed to execute (`asked`). `defaults`: with the defaults."""
    rules, catalog = table_rules(table, environment), environment.catalog
    collated = catalog.collating_domains or catalog.knows_ascii_only or is_collated(table)
    if not collated and not catalog.routines:
        return rules

    def made(value: tree.Expr) -> tree.Expr:
        value = expanded_expression(value, environment) if asked else inline_call(value, catalog)
        return collate_expression(value, catalog, table) if collated else value

    return TableRules(
        {number: made(value) for number, value in rules.defaults.items()} if defaults else {},
        tuple(replace(item, expression=made(item.expression)) for item in rules.generated),
        tuple((name, made(value)) for name, value in rules.checks),
    )


def check_calls(table: Table, environment: Environment) -> None:
    """42501 unless the user may execute the functions that new rows of the table run in addition to the statement's
    rules: in indexes and partition keys, and in the rules of its partitions."""
    catalog = environment.catalog
    if not catalog.routines:
        return
    for item in table_rules(table, environment).indexed:
        expanded_expression(item, environment)
    for text in (part.expression for part in table.partitioning.columns) if table.partitioning is not None else ():
        if text is not None:
            expanded_expression(bind_text(text, environment, table, None, "partition key expressions"), environment)
    for oid in catalog.children.get(table.oid, ()) if table.partitioning is not None else ():
        below = catalog.table(oid)
        rules = table_rules(below, environment)
        for item in (*(part.expression for part in rules.generated), *(check for _, check in rules.checks)):
            expanded_expression(item, environment)
        check_calls(below, environment)


def _get_index_expressions(table: Table, environment: Environment) -> tuple[tree.Expr, ...]:
    catalog = environment.catalog
    texts = [
        text
        for index in map(catalog.index, table.indexes if catalog.routines else ())
        for text in (*(column.expression for column in index.columns), index.predicate)
        if text is not None
    ]
    return tuple(bind_text(text, environment, table, None, "index expressions") for text in texts)


def _bind(table: Table, environment: Environment) -> TableRules:
    defaults: dict[int, tree.Expr] = {}
    generated = []
    for column in table.columns:
        plain = TypeRef(column.type.oid, column.type.typmod)  # the conditions of its domain are a separate rule
        if column.generated is not None:
            value = bind_text(column.generated, environment, table, plain, "column generation expressions")
            generated.append(tree.Assignment(column.number, value))
        elif column.identity and column.sequence is not None:
            defaults[column.number] = tree.NextValueExpr(column.sequence, column.type)
        else:
            text = column.default
            if text is None and column.type.domain:
                text = domain_default(environment.catalog, column.type)
            if text is not None:
                defaults[column.number] = bind_text(text, environment, None, plain, "DEFAULT expressions")
    domains = tuple(
        ("", column_rule(environment, column))
        for column in table.columns
        if has_conditions(environment.catalog, column.type)
    )
    checks = domains + tuple(
        (item.name, bind_text(item.check, environment, table, BOOL_REF, "check constraints"))
        for item in sorted(table.constraints, key=lambda item: item.name)
        if item.kind == "c" and item.check is not None
    )
    bounds = constraint_text(environment.catalog, table)
    if bounds is not None:
        checks += ((tree.PARTITION_CHECK, bind_text(bounds, environment, table, BOOL_REF, "check constraints")),)
    return TableRules(defaults, tuple(generated), checks, _get_index_expressions(table, environment))


def bind_text(text: str, environment: Environment, table: Table | None, target: TypeRef | None, kind: str) -> tree.Expr:
    """A stored expression over a table's columns (range entry 0), cast to `target` by assignment."""
    inside = Environment(
        environment.catalog, ("pg_catalog", "public"), environment.user_name, environment.database_name
    )
    try:
        return bind_expression(parse_expression(text), inside, table, target, kind)
    finally:
        environment.make_current()


def bind_expression(
    node: ast.Node,
    environment: Environment,
    table: Table | None,
    target: TypeRef | None,
    kind: str,
    shared: Shared | None = None,
) -> tree.Expr:
    """An expression that stands outside of any query, over the columns of `table` if there is one; with the parameters
    of `shared`."""
    state = State(shared or Shared(environment, ()))
    if table is not None:
        columns = tuple(tree.RangeColumn(column.name, column.type) for column in table.columns)
        entry = tree.RangeTable(table, table.name, columns)
        item = table_item(state.add(entry), entry)
        state.names.append(item)
        state.namespace.append(item)
    value = expression(state, node, kind)
    if target is None:
        return coerce.settle_unknown(state, value)
    if target.oid == BOOL and kind not in (
        "DEFAULT expressions",
        "column generation expressions",
        "transform expressions",
    ):
        return coerce.to_boolean(state, value, _CONSTRUCTS.get(kind, "WHERE"))
    result = coerce.coerce(state, value, target, "a")
    if result is None:
        fail(
            "42804",
            f"{'generation' if kind.startswith('column gen') else 'default'} expression is of type "
            f"{type_name(value.type.oid)} but column is of type {type_name(target.oid)}",
            expr_location(value),
            hint="You will need to rewrite or cast the expression.",
        )
    return result


_CONSTRUCTS = {"check constraints": "CHECK", "index predicates": "WHERE", "policy expressions": "POLICY"}
