"""Expressions of the definition of a table or an index, which the catalog keeps as text."""

from __future__ import annotations

from catalog.catalog import Catalog
from catalog.errors import not_supported
from catalog.schema import Table
from catalog.types.base import TypeRef
from engine.sql import tree
from engine.sql.analyze import analyze_expression, inner_environment
from engine.sql.analyze.collations import collate_expression
from engine.sql.analyze.routines import inline_call
from engine.sql.parser import parse_expression
from engine.sql.tree_walk import walk


def bind_expression(catalog: Catalog, table: Table | None, text: str, type_: TypeRef | None = None) -> tree.Expr:
    """The analysed form of SQL text over the columns of `table` (range entry 0), cast to `type_` where given."""
    with inner_environment(catalog) as inside:
        found = analyze_expression(parse_expression(text), inside, table, type_)
        found = collate_expression(inline_call(found, catalog), catalog, table)
    if any(isinstance(item, tree.Query) for item in walk(found)):
        not_supported("a function that reads tables in an expression of an index, or in a default of SET DEFAULT")
    return found
