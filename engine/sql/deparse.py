"""Analysed trees -> SQL text with the same meaning (PostgreSQL's ruleutils.c, without its pretty mode).

Views are stored as such text, and pg_get_viewdef, pg_get_expr and similar functions print it. All operators have
parentheses, all constants their types, and implicit casts are left out, so that the analysis of the text gives the same
tree. Names outside pg_catalog are qualified, unless `visible` contains the schema: then the text is for display. The
layout (newlines, indentation) is PostgreSQL's, so that clients that compare texts see no difference.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from catalog.catalog import Catalog
from catalog.functions.system_columns import SYSTEM_COLUMNS
from catalog.types.oids import RECORD
from engine.sql import tree
from engine.sql.analyze.coerce import strip_implicit
from engine.sql.analyze.environment import builtin_relations_by_oid
from engine.sql.deparse_expressions import (
    JOIN,
    STANDARD,
    VARIABLE,
    ExpressionPrinter,
    Level,
)
from engine.sql.deparse_names import merged_pairs, quote_identifier, quote_literal, system_column, unused_name

__all__ = ["deparse_expression", "deparse_query", "quote_identifier", "quote_literal"]


def deparse_expression(
    expr: tree.Expr,
    entries: Sequence[tree.RangeEntry],
    catalog: Catalog,
    visible: Collection[int] = (),
    pretty: bool = False,
    indent: int = 0,
) -> str:
    """The text of an expression over range table `entries` (pg_get_expr): a default, a check, an index expression.

    `visible` are the OIDs of schemas whose names may be left out. Columns are qualified if there are several entries.
    `indent`: of the lines of sub-queries. `pretty` leaves out parentheses that precedence makes unnecessary.
    """
    printer = QueryPrinter(catalog, visible, pretty)
    printer.levels.append(printer.names_of(entries, len(entries) > 1))
    printer.indent = indent
    printer.expression(expr, False)
    return printer.text()


def deparse_query(
    query: tree.Query,
    catalog: Catalog,
    visible: Collection[int] = (),
    names: Sequence[str] | None = None,
    pretty: bool = False,
) -> str:
    """The text of a query as pg_get_viewdef prints it, without the semicolon.

    `names` are the names of the output columns if they differ from those in the query (CREATE VIEW v (a, b) AS ...).
    `visible` and `pretty` are as in `deparse_expression`.
    """
    printer = QueryPrinter(catalog, visible, pretty)
    printer.query(query, names or [target.name for target in query.output])
    return printer.text()


class QueryPrinter(ExpressionPrinter):
    """Prints queries, with the expressions in them."""

    def query(self, query: tree.Query, names: Sequence[str] | None = None, named: bool = True) -> None:
        """get_query_def: prints a query level at the present indentation. `named`: an outer level may refer to its
        columns."""
        level = self.names_of(query.range_table, True, query.from_items)
        level.windows, level.ctes = query.windows, query.ctes
        self.levels.append(level)
        outer = self.indent
        if query.ctes:
            self.with_clause(query)
        if query.set_operation is not None:
            self.set_operation(query.set_operation, query, names, named)
            force_numbers = True
        else:
            self.select(query, names, named)
            force_numbers = False
        self.tail(query, force_numbers)
        self.indent = outer
        self.levels.pop()

    def with_clause(self, query: tree.Query) -> None:
        self.indent += STANDARD
        self.add(" WITH RECURSIVE " if any(cte.recursive for cte in query.ctes) else " WITH ")
        for position, cte in enumerate(query.ctes):
            assert isinstance(cte.query, tree.Query)
            if position:
                self.add(", ")
            self.add(quote_identifier(cte.name))
            written = cte.query if cte.written is None else cte.written
            if cte.aliases:
                self.add(f"({', '.join(map(quote_identifier, cte.aliases))})")
            self.add(" AS ")
            if cte.materialized is not None:
                self.add("MATERIALIZED " if cte.materialized else "NOT MATERIALIZED ")
            self.add("(")
            self.keyword("", 0, 0, 0)
            self.subquery(written)
            self.keyword("", 0, 0, 0)
            self.add(")")
            self.search_and_cycle(cte)
        self.indent -= STANDARD
        self.keyword("", 0, 0, 0)

    def search_and_cycle(self, cte: tree.Cte) -> None:
        search, cycle = cte.search, cte.cycle
        if search is not None:
            columns = ", ".join(map(quote_identifier, search.columns))
            order = "BREADTH" if search.breadth else "DEPTH"
            self.add(f" SEARCH {order} FIRST BY {columns} SET {quote_identifier(search.sequence)}")
        if cycle is None:
            return
        self.add(f" CYCLE {', '.join(map(quote_identifier, cycle.columns))} SET {quote_identifier(cycle.mark)}")
        marks = [item.value if isinstance(item, tree.Const) else None for item in (cycle.value, cycle.default)]
        if marks[0] is not True or marks[1] is not False:
            self.add(" TO ")
            self.expression(cycle.value)
            self.add(" DEFAULT ")
            self.expression(cycle.default)
        self.add(f" USING {quote_identifier(cycle.path)}")

    def select(self, query: tree.Query, names: Sequence[str] | None, named: bool) -> None:
        values = _only_values(query)
        self.indent += STANDARD
        self.add(" ")
        if values is not None:
            self.values(values)
            return
        self.add("SELECT")
        if query.distinct is not None:
            self.add(" DISTINCT")
            if query.distinct:
                self.add(" ON (")
                for position, expr in enumerate(query.distinct):
                    self.add(", " if position else "")
                    self.print_grouped(expr)
                self.add(")")
        self.targets(query, names, named)
        self.from_clause(query)
        if query.where is not None:
            self.keyword(" WHERE ", -STANDARD, STANDARD, 1)
            self.expression(query.where, False)
        self.group_by(query)
        if query.having is not None:
            self.keyword(" HAVING ", -STANDARD, STANDARD, 0)
            self.expression(query.having, False)
        defined = [window for window in query.windows if window.name is not None]
        for position, window in enumerate(defined):
            if position:
                self.add(", ")
            else:
                self.keyword(" WINDOW ", -STANDARD, STANDARD, 1)
            assert window.name is not None
            self.add(f"{quote_identifier(window.name)} AS ")
            self.window(window)

    def targets(self, query: tree.Query, names: Sequence[str] | None, named: bool) -> None:
        for position, target in enumerate(query.output):
            self.add(", " if position else " ")
            bare = "" if named else "?column?"
            if isinstance(target.expression, tree.Var):
                text, bare = self.variable(target.expression)
            elif isinstance(target.expression, tree.FuncExpr) and target.expression.function.oid in SYSTEM_COLUMNS:
                text, bare = self.variable(system_column(target.expression))
            else:
                text = self.apart(target.expression)
            if text.startswith("\n"):
                self.trim()
            elif position:
                self.keyword("", -STANDARD, STANDARD, VARIABLE)
            self.add(text)
            name = names[position] if names is not None and position < len(names) else target.name
            if name != bare:
                self.add(f" AS {quote_identifier(name)}")

    def apart(self, expr: tree.Expr) -> str:
        """The text of an expression, without adding it."""
        saved, self.parts = self.parts, []
        self.expression(expr)
        text, self.parts = self.text(), saved
        return text

    def group_by(self, query: tree.Query) -> None:
        if not query.group_by and not query.grouping_sets:
            return
        self.keyword(" GROUP BY ", -STANDARD, STANDARD, 1)
        if not query.grouping_sets:
            for position, expr in enumerate(query.group_by):
                self.add(", " if position else "")
                self.print_grouped(expr)
            return
        self.add("GROUPING SETS (")
        for position, indexes in enumerate(query.grouping_sets):
            self.add(", (" if position else "(")
            for place, index in enumerate(indexes):
                self.add(", " if place else "")
                self.print_grouped(query.group_by[index])
            self.add(")")
        self.add(")")

    def tail(self, query: tree.Query, force_numbers: bool) -> None:
        """ORDER BY, OFFSET, LIMIT and FOR UPDATE."""
        if query.order_by:
            self.keyword(" ORDER BY ", -STANDARD, STANDARD, 1)
            for position, clause in enumerate(query.order_by):
                self.add(", " if position else "")
                if force_numbers:
                    number = next(i for i, item in enumerate(query.targets, 1) if item.expression == clause.expression)
                    self.add(str(number))
                else:
                    self.print_grouped(clause.expression)
                self.direction(clause)
        if query.offset is not None:
            self.keyword(" OFFSET ", -STANDARD, STANDARD, 0)
            self.expression(query.offset, False)
        if query.limit is not None:
            if query.limit_with_ties:
                self.keyword(" FETCH FIRST ", -STANDARD, STANDARD, 0)
                self.sequence("(", query.limit, ") ROWS WITH TIES")
            else:
                self.keyword(" LIMIT ", -STANDARD, STANDARD, 0)
                if isinstance(query.limit, tree.Const) and query.limit.value is None:
                    self.add("ALL")
                else:
                    self.expression(query.limit, False)
        for mark in query.row_marks:
            self.keyword(f" FOR {mark.strength.upper()}", -STANDARD, STANDARD, 0)
            self.add(f" OF {quote_identifier(self.levels[-1].aliases[mark.relation])}")
            self.add({"nowait": " NOWAIT", "skip locked": " SKIP LOCKED"}.get(mark.wait, ""))

    def values(self, entry: tree.RangeValues) -> None:
        self.add("VALUES ")
        for position, row in enumerate(entry.rows):
            self.add(", (" if position else "(")
            for place, cell in enumerate(row):
                self.add("," if place else "")
                self.expression(cell, False)
            self.add(")")

    def set_operation(
        self, node: tree.SetOperation | tree.FromRef, query: tree.Query, names: Sequence[str] | None, named: bool
    ) -> None:
        """get_setop_query."""
        if isinstance(node, tree.FromRef):
            self.leaf(query.range_table[node.relation], names, named)
            return
        left = isinstance(node.left, tree.SetOperation) and (node.left.kind, node.left.all) != (node.kind, node.all)
        indent = STANDARD if left else 0
        if left:
            self.add("(")
            self.keyword("", indent, 0, 0)
        self.set_operation(node.left, query, names, named)
        self.keyword(") " if left else "", -indent, 0, 0)
        self.add(f"{node.kind.upper()} {'ALL ' if node.all else ''}")
        right = isinstance(node.right, tree.SetOperation)
        indent = STANDARD if right else 0
        self.add("(" if right else "")
        self.keyword("", indent, 0, 0)
        self.set_operation(node.right, query, names, False)
        if right:
            self.keyword(")", -indent, 0, 0)

    def leaf(self, entry: tree.RangeEntry, names: Sequence[str] | None, named: bool) -> None:
        """One side of a set operation. The casts to the common types are left out, because the analysis adds them
        again."""
        assert isinstance(entry, tree.RangeSubquery)
        query = without_casts(entry.query)
        wrapped = query.range_table[0] if _is_wrapper(query) else None
        if isinstance(wrapped, tree.RangeSubquery):
            self.levels.append(self.names_of(query.range_table, True))
            self.leaf(wrapped, names, named)
            self.levels.pop()
            return
        parentheses = bool(
            query.ctes or query.order_by or query.row_marks or query.limit is not None or query.offset is not None
            or query.set_operation is not None
        )  # fmt: skip
        self.add("(" if parentheses else "")
        saved = self.indent
        self.query(query, names, named)
        self.indent = saved
        self.add(")" if parentheses else "")

    # ---- FROM -----------------------------------------------------------------------------------------------------

    def from_clause(self, query: tree.Query) -> None:
        for position, item in enumerate(query.from_items):
            if position:
                self.add(", ")
                self.keyword("", -STANDARD, STANDARD, VARIABLE)
            else:
                self.keyword(" FROM ", -STANDARD, STANDARD, 2)
            self.from_item(item)

    def from_item(self, item: tree.FromItem) -> None:
        level = self.levels[-1]
        if isinstance(item, tree.FromRef):
            names = list(level.columns[item.relation].values())
            self.entry(level.entries[item.relation], level.aliases[item.relation], names)
            return
        level.open_joins.add(item.relation)
        entry = level.entries[item.relation] if item.relation >= 0 else None
        aliased = isinstance(entry, tree.RangeJoin) and entry.alias != "unnamed_join"
        self.add("(" if aliased or not self.pretty else "")
        self.from_item(item.left)
        kind = "CROSS" if item.condition is None else item.kind.upper()
        self.keyword(" JOIN " if kind == "INNER" else f" {kind} JOIN ", -STANDARD, STANDARD, JOIN)
        apart = self.pretty and self.is_bare_join(item.right)
        self.add("(" if apart else "")
        self.from_item(item.right)
        self.add(")" if apart else "")
        if isinstance(entry, tree.RangeJoin) and entry.merged:
            using = [_name_in(level, pair[0]) for pair in merged_pairs(level.entries, item)]
            self.add(f" USING ({', '.join(map(quote_identifier, using))})")
        elif item.condition is not None:
            self.add(" ON ")
            self.parenthesis("(")
            self.expression(item.condition, False)
            self.parenthesis(")")
        self.add(")" if aliased or not self.pretty else "")
        if isinstance(entry, tree.RangeJoin) and aliased:
            self.add(f" {quote_identifier(level.aliases[item.relation])}")
            names = self.join_names(item, entry)
            if names:
                self.add(f"({', '.join(map(quote_identifier, names))})")
        level.open_joins.discard(item.relation)

    def join_names(self, item: tree.FromJoin, entry: tree.RangeJoin) -> list[str]:
        """The column names after the alias of a join, if they are needed: of all its columns."""
        level = self.levels[-1]
        named = {
            (expr.relation, expr.column): column.name
            for column, expr in zip(entry.columns, entry.expressions, strict=True)
            if isinstance(expr, tree.Var)
        }
        merged = [column.name for column in entry.columns[: entry.merged]]
        used = {*merged, *named.values()}
        rest = _columns_of_join(level, item)[entry.merged :]
        names = merged + [named.get(key) or unused_name(level.columns[key[0]][key[1]], used) for key in rest]
        real = [_name_in(level, pair[0]) for pair in merged_pairs(level.entries, item)]
        real += [level.columns[relation][column] for relation, column in rest]
        return names if len(set(names)) < len(names) or names != real else []

    def is_bare_join(self, item: tree.FromItem) -> bool:
        """Whether an item is a join without an alias, which has parentheses of its own."""
        if isinstance(item, tree.FromRef):
            return False
        entry = self.levels[-1].entries[item.relation] if item.relation >= 0 else None
        return not isinstance(entry, tree.RangeJoin) or entry.alias == "unnamed_join"

    def sample(self, sample: tree.Sample) -> None:
        """TABLESAMPLE after a table."""
        self.add(f" TABLESAMPLE {sample.method} (")
        self.expression(sample.percent, False)
        self.add(")")
        if sample.seed is not None:
            self.add(" REPEATABLE (")
            self.expression(sample.seed, False)
            self.add(")")

    def entry(self, entry: tree.RangeEntry, alias: str, names: Sequence[str]) -> None:
        """One relation in FROM, with its alias if that is needed."""
        if isinstance(entry, tree.RangeTable):
            self.add(f"{'ONLY ' if entry.only else ''}{self.relation_name(entry.table.oid)}")
            known = None if entry.aliased else entry.table.name
            self.alias(alias, known, names, [column.name for column in entry.table.columns])
            if entry.sample is not None:
                self.sample(entry.sample)
        elif isinstance(entry, tree.RangeCte):
            self.add(quote_identifier(entry.name))
            self.alias(alias, entry.name, names, self.cte_names(entry))
        elif isinstance(entry, tree.RangeSubquery) and entry.view is not None:
            view = self.catalog.get(entry.view) or builtin_relations_by_oid().get(entry.view)
            self.add(self.relation_name(entry.view))
            real = [column.name for column in getattr(view, "columns", ())] or [t.name for t in entry.query.output]
            self.alias(alias, getattr(view, "name", ""), names, real)
        elif isinstance(entry, tree.RangeSubquery):
            self.add("LATERAL (" if entry.lateral else "(")
            self.subquery(entry.query)
            self.add(")")
            values = _only_values(entry.query) is not None
            self.alias(alias, None, names, [] if values else [target.name for target in entry.query.output])
        elif isinstance(entry, tree.RangeFunction):
            self.functions(entry, alias)
        elif isinstance(entry, tree.RangeValues):
            self.add("(")
            self.values(entry)
            self.add(")")
            self.alias(alias, None, names, [])

    def cte_names(self, entry: tree.RangeCte) -> list[str]:
        for cte in self.levels[-1 - entry.levels_up].ctes:
            if cte.name == entry.name:
                return [column.name for column in cte.columns][: len(entry.columns)]
        return [column.name for column in entry.columns]

    def alias(self, alias: str, name: str | None, columns: Sequence[str], real: Sequence[str]) -> None:
        renamed = list(columns) != list(real)
        if alias != name or renamed:
            self.add(f" {quote_identifier(alias)}")
        if renamed:
            self.add(f"({', '.join(map(quote_identifier, columns))})")

    def functions(self, entry: tree.RangeFunction, alias: str) -> None:
        several = len(entry.functions) > 1
        self.add("LATERAL " if entry.lateral else "")
        self.add("ROWS FROM(" if several else "")
        self.expressions(entry.functions)
        self.add(")" if several else "")
        self.add(" WITH ORDINALITY" if entry.ordinality else "")
        first = entry.functions[0]
        anonymous = (
            isinstance(first, tree.FuncExpr)
            and first.type.oid == RECORD
            and not first.function.output_types
            and not several
        )
        columns = [
            quote_identifier(column.name) + (self.definition(column) if anonymous else "") for column in entry.columns
        ]
        self.add(f" {'AS ' if anonymous else ''}{quote_identifier(alias)}({', '.join(columns)})")

    def definition(self, column: tree.RangeColumn) -> str:
        """The definition of a column in a column definition list, after its name."""
        collation = f" COLLATE {self.collation(column.collation)}" if column.collation else ""
        return f" {self.type(column.type)}{collation}"


def _columns_of_join(level: Level, item: tree.FromItem) -> list[tuple[int, int]]:
    """The columns (entry, column) of a FROM item, with merged ones first."""
    if isinstance(item, tree.FromRef):
        return [(item.relation, column) for column in level.columns[item.relation]]
    pairs = merged_pairs(level.entries, item)
    gone = {(var.relation, var.column) for pair in pairs for var in pair}
    entry = level.entries[item.relation]
    assert isinstance(entry, tree.RangeJoin)
    merged = [
        (expr.relation, expr.column) if isinstance(expr, tree.Var) else (item.relation, number)
        for number, expr in enumerate(entry.expressions[: entry.merged], 1)
    ]
    sides = [*_columns_of_join(level, item.left), *_columns_of_join(level, item.right)]
    return merged + [key for key in sides if key not in gone]


def _name_in(level: Level, expr: tree.Expr) -> str:
    return level.columns[expr.relation].get(expr.column, "") if isinstance(expr, tree.Var) else ""


def without_casts(query: tree.Query) -> tree.Query:
    """The query without the implicit casts of its output columns."""
    if query.set_operation is not None:
        return query
    bare = tuple(replace(target, expression=strip_implicit(target.expression)) for target in query.targets)
    return query if bare == query.targets else replace(query, targets=bare)


def _is_wrapper(query: tree.Query) -> bool:
    """Whether the analyser added this query around a side of a set operation only for casts."""
    return (
        len(query.range_table) == 1
        and isinstance(query.range_table[0], tree.RangeSubquery)
        and query.range_table[0].alias == "*SELECT*"
        and all(isinstance(target.expression, tree.Var) for target in query.targets)
    )


def _only_values(query: tree.Query) -> tree.RangeValues | None:
    """The list of a query that is only VALUES."""
    if len(query.range_table) != 1 or query.where is not None or query.group_by or query.distinct is not None:
        return None
    entry = query.range_table[0]
    if not isinstance(entry, tree.RangeValues) or len(query.targets) != len(entry.columns):
        return None
    plain = all(
        isinstance(target.expression, tree.Var)
        and target.expression.column == position
        and not target.expression.levels_up
        for position, target in enumerate(query.targets, 1)
    )
    return entry if plain else None
