"""The text of INSERT, UPDATE and DELETE in rules, as pg_get_ruledef prints them (get_insert_query_def of ruleutils.c
and its neighbours)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from catalog.catalog import Catalog
from catalog.errors import not_supported
from catalog.schema import Table
from engine.sql import ast, tree
from engine.sql.deparse import QueryPrinter, without_casts
from engine.sql.deparse_expressions import STANDARD
from engine.sql.deparse_names import quote_identifier

RuleAction = tree.Insert | tree.Update | tree.Delete
ActionNode = ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt


def deparse_change(
    change: RuleAction,
    node: ActionNode,
    around: Sequence[tree.RangeEntry],
    catalog: Catalog,
    visible: Collection[int] = (),
    pretty: bool = False,
) -> str:
    """The text of a change whose expressions also use the entries `around` it, one level out. `node` is what was
    analysed: it tells where DEFAULT stands."""
    printer = _ChangePrinter(catalog, visible, pretty)
    printer.levels.append(printer.names_of(around, True))
    printer.change(change, node)
    return printer.text()


class _ChangePrinter(QueryPrinter):
    def change(self, change: RuleAction, node: ActionNode) -> None:
        items = () if isinstance(change, tree.Insert) else change.from_items
        self.levels.append(self.names_of(change.range_table, True, items))
        self.indent += STANDARD
        self.add(" ")
        if isinstance(change, tree.Insert):
            assert isinstance(node, ast.InsertStmt)
            self.insert(change, node)
        elif isinstance(change, tree.Update):
            assert isinstance(node, ast.UpdateStmt)
            self.update(change, node)
        else:
            self.changed_table("DELETE FROM ", change, "")
            self.sources(" USING ", change)
        self.returning_list(change.returning)

    def changed_table(self, verb: str, change: RuleAction, alias: str) -> None:
        """The verb and the table, with its alias if it has one."""
        entry = change.range_table[0]
        only = "ONLY " if isinstance(entry, tree.RangeTable) and entry.only else ""
        if only and isinstance(change, tree.Insert):
            only = ""
        self.add(f"{verb}{only}{self.relation_name(change.table.oid)}")
        shown = self.levels[-1].aliases[0]
        if shown != change.table.name:
            self.add(f" {alias}{quote_identifier(shown)}")

    def insert(self, change: tree.Insert, node: ast.InsertStmt) -> None:
        self.changed_table("INSERT INTO ", change, "AS ")
        self.add(" ")
        names = [_name(change.table, number) for number in change.columns]
        if names and node.query is not None:
            self.add(f"({', '.join(names)}) ")
        if node.overriding:
            self.add(f"OVERRIDING {node.overriding.upper()} VALUE ")
        if node.query is None:
            self.add("DEFAULT VALUES")
        elif not node.query.values:
            assert change.source is not None
            self.subquery(without_casts(change.source), named=False)
        else:
            self.keyword("VALUES ", -STANDARD, STANDARD, 2)
            places = {column.number: place for place, column in enumerate(change.table.columns)}
            rows = [[row[places[number]] for number in change.columns] for row in change.rows]
            if change.source is not None:
                rows = [[target.expression for target in change.source.output]]
            for position, (row, cells) in enumerate(zip(rows, node.query.values, strict=True)):
                if len(row) != len(cells):
                    not_supported("all columns of a row (new.*) in VALUES of a rule")
                self.add(", (" if position else "(")
                for place, (value, cell) in enumerate(zip(row, cells, strict=True)):
                    self.add(("," if len(rows) > 1 else ", ") if place else "")
                    self.value(value, cell)
                self.add(")")

    def value(self, value: tree.Expr, node: ast.Node | None) -> None:
        if isinstance(node, ast.SetToDefault):
            self.add("DEFAULT")
        else:
            self.expression(value, False)

    def update(self, change: tree.Update, node: ast.UpdateStmt) -> None:
        self.changed_table("UPDATE ", change, "")
        self.add(" SET ")
        for position, (item, target) in enumerate(zip(change.assignments, node.assignments, strict=True)):
            self.add(", " if position else "")
            self.add(f"{_name(change.table, item.column)} = ")
            self.value(item.expression, target.expression if isinstance(target, ast.ResTarget) else None)
        self.sources(" FROM ", change)

    def sources(self, word: str, change: tree.Update | tree.Delete) -> None:
        """FROM or USING, and WHERE."""
        for position, item in enumerate(change.from_items):
            if position:
                self.add(", ")
                self.keyword("", -STANDARD, STANDARD, 2)
            else:
                self.keyword(word, -STANDARD, STANDARD, 2)
            self.from_item(item)
        if change.where is not None:
            self.keyword(" WHERE ", -STANDARD, STANDARD, 1)
            self.expression(change.where, False)

    def returning_list(self, targets: Sequence[tree.Target]) -> None:
        if targets:
            self.keyword(" RETURNING", -STANDARD, STANDARD, 1)
            self.targets(tree.Query(tuple(targets)), None, True)


def _name(table: Table, number: int) -> str:
    return quote_identifier(table.column_by_number(number).name)
