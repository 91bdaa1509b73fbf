"""SELECT, VALUES, TABLE and set operations; WITH; FROM.

A query's clauses (ORDER BY, LIMIT, FOR UPDATE, WITH) may be outside of its parentheses. As in PostgreSQL, they then
belong to the same SelectStmt, and a second clause of the same kind is an error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser.expressions import AFTER_TARGETS, SELECT_START, Expressions
from engine.sql.parser.function_syntax import SPECIAL_FUNCTION_START
from engine.sql.parser.keywords import BARE_LABEL, COLUMN_NAME, TYPE_FUNCTION_NAME
from engine.sql.parser.relations import Relations

_CONTINUATIONS: Final = frozenset(("union", "intersect", "except", "order", "limit", "offset", "fetch", "for"))
_WINDOWING_ERROR: Final = "42P20"
_ENDS: Final = frozenset(("", ";", ")", "order", "limit", "union"))  # tokens after WHERE in the simple form
_JOINS: Final = frozenset(("join", "inner", "left", "right", "full", "cross", "natural"))


def _names_column(clause: ast.SortBy) -> bool:
    """Whether an item of ORDER BY is only a column's name or number."""
    item = clause.expression
    return isinstance(item, ast.ColumnRef) or (isinstance(item, ast.Literal) and item.kind == "integer")


class Queries(Relations, Expressions):
    """SelectStmt and its parts."""

    def at_query_continuation(self) -> bool:
        return self._curr.key in _CONTINUATIONS

    def at_query(self) -> bool:
        """Whether a query comes next, in parentheses or not."""
        distance = 0
        while self.peek(distance) == "(":
            distance += 1
        word = self.peek(distance)
        return word in SELECT_START and (word != "values" or self.peek(distance + 1) == "(")

    def select(self) -> ast.SelectStmt:
        """SelectStmt, with or without outer parentheses."""
        return self.select_without_parentheses()

    def select_in_parentheses(self) -> ast.SelectStmt:
        self.expect("(")
        saved, self._labels_allowed = self._labels_allowed, False
        query = self.select_without_parentheses()
        self._labels_allowed = saved
        self.expect(")")
        return query

    def select_without_parentheses(self) -> ast.SelectStmt:
        """[WITH ...] query [ORDER BY ...] [LIMIT ...] [FOR ...]; the query may be in parentheses."""
        if self._curr.key == "with":
            with_clause = self.with_clause()
            start = self._curr.start
            query = self._query_clauses(self._set_operations(self._select_term(), 0))
            if query.with_clause is not None:
                self.complain("multiple WITH clauses not allowed", start)
            return replace(query, with_clause=with_clause)
        return self._query_clauses(self._set_operations(self._select_term(), 0))

    def continue_select(self, left: ast.SelectStmt) -> ast.SelectStmt:
        """Continues after a query in parentheses."""
        return self._query_clauses(self._set_operations(left, 0))

    def _select_term(self) -> ast.SelectStmt:
        key = self._curr.key
        if key == "select":
            return self._simple_select()
        if key == "values":
            return self._values()
        if key == "table":
            return self._table()
        if key == "(":
            return self.select_in_parentheses()
        self.fail()

    def _set_operations(self, left: ast.SelectStmt, floor: int) -> ast.SelectStmt:
        """UNION and EXCEPT (level 0) and INTERSECT (level 1), left-associative."""
        while self._curr.key in ("union", "intersect", "except"):
            level = 1 if self._curr.key == "intersect" else 0
            if level < floor:
                break
            operation = self.advance().key
            every = self.accept("all")
            if not every:
                self.accept("distinct")
            right = self._set_operations(self._select_term(), level + 1)
            left = ast.SelectStmt(set_operation=operation, all=every, left=left, right=right, location=left.location)
        return left

    # ---- the simple forms ----

    def _simple_select(self) -> ast.SelectStmt:
        start = self.expect("select").start
        distinct: tuple[ast.Node, ...] | None = None
        if self.accept("distinct"):
            distinct = ()
            if self.accept("on"):
                self.expect("(")
                distinct = self.expressions()
                self.expect(")")
        else:
            self.accept("all")
        targets: tuple[ast.ResTarget, ...] = ()
        if distinct is not None or self._curr.key not in AFTER_TARGETS:
            targets = self.target_list()
        into = self._into() if self.accept("into") else None
        from_clause = self.from_clause()
        where = self.expression() if self.accept("where") else None
        if self._curr.key in _ENDS:
            return ast.SelectStmt(targets, from_clause, where, distinct=distinct, into=into, location=start)
        group_by, group_distinct = self._group_clause()
        having = self.expression() if self.accept("having") else None
        windows = self._window_clause()
        return ast.SelectStmt(
            targets,
            from_clause,
            where,
            group_by,
            group_distinct,
            having,
            windows,
            distinct,
            into=into,
            location=start,
        )

    def _into(self) -> ast.RangeVar:
        """OptTempTableName. A temporary table has the schema pg_temp."""
        persistence = self.persistence()
        self.accept("table")
        relation = self.qualified_name()
        if persistence == "u":
            self.refuse("SELECT INTO UNLOGGED", relation.location)
        return replace(relation, schema="pg_temp") if persistence == "t" else relation

    def persistence(self) -> str:
        """[GLOBAL | LOCAL] TEMPORARY, UNLOGGED or nothing: t, u, p."""
        if self._curr.key in ("local", "global") and self.peek() in ("temporary", "temp"):
            self.advance()
        if self._curr.key in ("temporary", "temp"):
            self.advance()
            return "t"
        return "u" if self.accept("unlogged") else "p"

    def _values(self) -> ast.SelectStmt:
        start = self.expect("values").start
        rows = []
        while True:
            self.expect("(")
            rows.append(self.expressions())
            self.expect(")")
            if not self.accept(","):
                return ast.SelectStmt(values=tuple(rows), location=start)

    def _table(self) -> ast.SelectStmt:
        start = self.expect("table").start
        relation = self.relation_expression()
        star = ast.ResTarget(ast.ColumnRef(("*",)))
        return ast.SelectStmt((star,), (relation,), location=start)

    def target_list(self) -> tuple[ast.ResTarget, ...]:
        items = [self._target()]
        while self.accept(","):
            items.append(self._target())
        return tuple(items)

    def _target(self) -> ast.ResTarget:
        start = self._curr.start
        if self.accept("*"):
            return ast.ResTarget(ast.ColumnRef(("*",), location=start), location=start)
        saved, self._labels_allowed = self._labels_allowed, True
        expression = self.expression()
        self._labels_allowed = saved
        name = None
        if self.accept("as"):
            name = self.label()
        elif self._curr.key in BARE_LABEL:
            name = self.advance().text
        return ast.ResTarget(expression, name, location=start)

    def _group_clause(self) -> tuple[tuple[ast.Node, ...], bool]:
        if not self.accept("group"):
            return (), False
        self.expect("by")
        distinct = self.accept("distinct")
        if not distinct:
            self.accept("all")
        return self._group_items(), distinct

    def _group_items(self) -> tuple[ast.Node, ...]:
        items = [self._group_item()]
        while self.accept(","):
            items.append(self._group_item())
        return tuple(items)

    def _group_item(self) -> ast.Node:
        token = self._curr
        following = self.peek()
        if token.key == "(" and following == ")":
            self.expect("(", ")")
            return ast.GroupingSet("empty", location=token.start)
        if token.key in ("rollup", "cube") and following == "(":
            self.advance()
            self.expect("(")
            content = self.expressions()
            self.expect(")")
            return ast.GroupingSet(token.key, content, location=token.start)
        if token.key == "grouping" and following == "sets":
            self.expect("grouping", "sets", "(")
            content = self._group_items()
            self.expect(")")
            return ast.GroupingSet("sets", content, location=token.start)
        return self.expression()

    def _window_clause(self) -> tuple[ast.WindowDef, ...]:
        if not self.accept("window"):
            return ()
        windows = []
        while True:
            start = self._curr.start
            name = self.column_name()
            self.expect("as")
            windows.append(replace(self.window_specification(), name=name, location=start))
            if not self.accept(","):
                return tuple(windows)

    # ---- windows ----

    def window_specification(self) -> ast.WindowDef:
        start = self.expect("(").start
        refname = None
        if self.at_name() and self._curr.key not in ("partition", "range", "rows", "groups"):
            refname = self.column_name()
        partition_by: tuple[ast.Node, ...] = ()
        if self.accept("partition"):
            self.expect("by")
            partition_by = self.expressions()
        order_by = self.sort_clause() if self._curr.key == "order" else ()
        mode = self.optional_keyword("range", "rows", "groups")
        if not mode:
            self.expect(")")
            return ast.WindowDef(None, refname, partition_by, order_by, location=start)
        frame_start, frame_end = self._frame_extent()
        exclude = self._frame_exclusion()
        self.expect(")")
        return ast.WindowDef(
            None, refname, partition_by, order_by, mode, frame_start, frame_end, exclude, location=start
        )

    def _frame_extent(self) -> tuple[tuple[str, ast.Node | None], tuple[str, ast.Node | None]]:
        at = self._curr.start
        between = self.accept("between")
        start_at = self._curr.start
        start = self._frame_bound()
        if start[0] == "unbounded_following":
            self.complain("frame start cannot be UNBOUNDED FOLLOWING", start_at, _WINDOWING_ERROR)
        if not between:
            if start[0] == "following":
                self.complain("frame starting from following row cannot end with current row", at, _WINDOWING_ERROR)
            return start, ("current_row", None)
        self.expect("and")
        end_at = self._curr.start
        end = self._frame_bound()
        if end[0] == "unbounded_preceding":
            self.complain("frame end cannot be UNBOUNDED PRECEDING", end_at, _WINDOWING_ERROR)
        if start[0] == "current_row" and end[0] == "preceding":
            self.complain("frame starting from current row cannot have preceding rows", end_at, _WINDOWING_ERROR)
        if start[0] == "following" and end[0] in ("preceding", "current_row"):
            self.complain("frame starting from following row cannot have preceding rows", end_at, _WINDOWING_ERROR)
        return start, end

    def _frame_bound(self) -> tuple[str, ast.Node | None]:
        if self._curr.key == "unbounded" and self.peek() in ("preceding", "following"):
            self.advance()
            return f"unbounded_{self.advance().key}", None
        if self._curr.key == "current" and self.peek() == "row":
            self.expect("current", "row")
            return "current_row", None
        offset = self.expression()
        return self.expect_one_of("preceding", "following"), offset

    def _frame_exclusion(self) -> str:
        if not self.accept("exclude"):
            return ""
        if self.accept("current"):
            self.expect("row")
            return "current_row"
        if self.accept("no"):
            self.expect("others")
            return ""
        return self.expect_one_of("group", "ties")

    # ---- ORDER BY, LIMIT, FOR ----

    def sort_clause(self) -> tuple[ast.SortBy, ...]:
        self.expect("order", "by")
        items = [self._sort_by()]
        while self.accept(","):
            items.append(self._sort_by())
        return tuple(items)

    def _sort_by(self) -> ast.SortBy:
        start = self._curr.start
        expression = self.expression()
        direction = self.optional_keyword("asc", "desc", "using")
        using: tuple[str, ...] = ()
        if direction == "using":
            using = self.operator_name() if self.at_operator() else self.fail()
        nulls = self.nulls_order()
        return ast.SortBy(expression, direction or "default", nulls, using, location=start)

    def _at_nulls_order(self) -> bool:
        return self._curr.key == "nulls" and self.peek() in ("first", "last")

    def nulls_order(self) -> str:
        if not self._at_nulls_order():
            return "default"
        self.advance()
        return self.expect_one_of("first", "last")

    def _query_clauses(self, query: ast.SelectStmt) -> ast.SelectStmt:
        """ORDER BY, then LIMIT/OFFSET/FETCH and FOR in either order."""
        if self._curr.key not in _CONTINUATIONS:
            return query
        changes: dict[str, object] = {}
        if self._curr.key == "order":
            at = self._curr.start
            constants = self._constants
            order = changes["order_by"] = self.sort_clause()
            if all(map(_names_column, order)):  # positions are not constants
                self._constants = constants
            if query.order_by:
                self.complain("multiple ORDER BY clauses not allowed", at)
        if self._curr.key == "for":
            changes["locking"] = query.locking + self._locking_clauses()
            self._limits(query, changes)
        else:
            self._limits(query, changes)
            if self._curr.key == "for":
                changes["locking"] = query.locking + self._locking_clauses()
        changed: ast.SelectStmt = replace(query, **changes)  # type: ignore[arg-type]
        if changed.limit_with_ties and not changed.order_by:
            self.complain("WITH TIES cannot be specified without ORDER BY clause", -1)
        if changed.limit_with_ties and any(lock.wait == "skip locked" for lock in changed.locking):
            self.complain("SKIP LOCKED and WITH TIES options cannot be used together", -1)
        return changed

    def _limits(self, query: ast.SelectStmt, changes: dict[str, object]) -> None:
        """LIMIT or FETCH, and OFFSET, in either order, each once."""
        while self._curr.key in ("limit", "fetch", "offset"):
            token = self._curr
            if token.key == "offset":
                if "offset" in changes:
                    self.fail()
                self.advance()
                at = self._curr.start
                changes["offset"] = self.expression()
                self.optional_keyword("row", "rows")
                if query.offset is not None:
                    self.complain("multiple OFFSET clauses not allowed", at)
                continue
            if "limit" in changes:
                self.fail()
            self.advance()
            at = self._curr.start
            if token.key == "limit":
                changes["limit"] = self._limit_value(token.start)
            else:
                changes["limit"], changes["limit_with_ties"] = self._fetch_value()
            if query.limit is not None:
                self.complain("multiple LIMIT clauses not allowed", at)

    def _limit_value(self, location: int) -> ast.Node:
        token = self._curr
        if self.accept("all"):
            return self.literal("null", None, location=token.start)
        value = self.expression()
        if self._curr.key == ",":
            self.advance()
            self.expression()
            self.complain_with_hint(location)
        return value

    def _fetch_value(self) -> tuple[ast.Node, bool]:
        """FETCH FIRST|NEXT [n] ROW|ROWS ONLY|WITH TIES: the count, and whether with ties."""
        self.expect_one_of("first", "next")
        start = self._curr.start
        value: ast.Node
        if self._curr.key in ("row", "rows"):
            value = self.literal("integer", "1")
        elif self._curr.key in ("+", "-"):
            value = self._number_with_sign(start)
        else:
            value = self.primary()
        self.expect_one_of("row", "rows")
        if self.accept("only"):
            return value, False
        self.expect("with", "ties")
        return value, True

    def _number_with_sign(self, start: int) -> ast.Node:
        text = self.signed_number()
        return self.literal("integer" if text.lstrip("-").isdigit() else "float", text, location=start)

    def _locking_clauses(self) -> tuple[ast.LockingClause, ...]:
        clauses: list[ast.LockingClause] = []
        while self._curr.key == "for":
            start = self.advance().start
            if self._curr.key == "read":
                if clauses:
                    self.fail()
                self.expect("read", "only")
                return ()
            strength = self._lock_strength()
            of: tuple[str, ...] = ()
            if self.accept("of"):
                of = tuple(relation.name for relation in self.qualified_names())
            wait = "block"
            if self.accept("nowait"):
                wait = "nowait"
            elif self.accept("skip"):
                self.expect("locked")
                wait = "skip locked"
            clauses.append(ast.LockingClause(strength, of, wait, location=start))
        return tuple(clauses)

    def _lock_strength(self) -> str:
        if self.accept("no"):
            self.expect("key", "update")
            return "no key update"
        if self.accept("key"):
            self.expect("share")
            return "key share"
        return self.expect_one_of("update", "share")

    # ---- WITH ----

    def with_clause(self) -> ast.WithClause:
        start = self.expect("with").start
        recursive = self.peek() not in ("(", "as") and self.accept("recursive")
        ctes = [self._common_table_expression()]
        while self.accept(","):
            ctes.append(self._common_table_expression())
        return ast.WithClause(recursive, tuple(ctes), location=start)

    def _common_table_expression(self) -> ast.CommonTableExpr:
        start = self._curr.start
        name = self.column_name()
        columns = self.optional_names_in_parentheses()
        self.expect("as")
        materialized: bool | None = None
        if self.accept("materialized"):
            materialized = True
        elif self.accept("not"):
            self.expect("materialized")
            materialized = False
        self.expect("(")
        query = self.preparable_statement()
        self.expect(")")
        search = self._search_clause() if self._curr.key == "search" else None
        cycle = self._cycle_clause() if self._curr.key == "cycle" else None
        return ast.CommonTableExpr(name, columns, query, materialized, search, cycle, location=start)

    def _search_clause(self) -> ast.SearchClause:
        start = self.expect("search").start
        breadth = self.expect_one_of("depth", "breadth") == "breadth"
        self.expect("first")
        self.expect("by")
        columns = self._column_names()
        self.expect("set")
        return ast.SearchClause(breadth, columns, self.column_name(), location=start)

    def _cycle_clause(self) -> ast.CycleClause:
        start = self.expect("cycle").start
        columns = self._column_names()
        self.expect("set")
        mark = self.column_name()
        value = default = None
        if self.accept("to"):
            value = self.expression()
            self.expect("default")
            default = self.expression()
        self.expect("using")
        return ast.CycleClause(columns, mark, value, default, self.column_name(), location=start)

    def _column_names(self) -> tuple[str, ...]:
        names = [self.column_name()]
        while self.accept(","):
            names.append(self.column_name())
        return tuple(names)

    # ---- FROM ----

    def from_clause(self) -> tuple[ast.Node, ...]:
        return self.from_list() if self.accept("from") else ()

    def from_list(self) -> tuple[ast.Node, ...]:
        items = [self.table_reference()]
        while self.accept(","):
            items.append(self.table_reference())
        return tuple(items)

    def table_reference(self) -> ast.Node:
        """table_ref: a source and the joins that follow it."""
        return self._joins(self._table_source())

    def _joins(self, left: ast.Node) -> ast.Node:
        while self._curr.key in _JOINS:
            left = self._join(left)
        return left

    def _join(self, left: ast.Node) -> ast.JoinExpr:
        start = self._curr.start
        if self.accept("cross"):
            self.expect("join")
            return ast.JoinExpr("cross", left, self._table_source(), location=start)
        natural = self.accept("natural")
        kind = self.optional_keyword("inner", "left", "right", "full") or "inner"
        if kind != "inner":
            self.accept("outer")
        self.expect("join")
        right = self._table_source()
        if natural:
            return ast.JoinExpr(kind, left, right, True, location=start)
        while self._curr.key in _JOINS:  # a JOIN b JOIN c ON ... ON ...: the inner join comes first
            right = self._join(right)
        if self.accept("using"):
            columns = self.names_in_parentheses()
            alias = self.column_name() if self.accept("as") else None
            return ast.JoinExpr(kind, left, right, False, columns, alias, location=start)
        self.expect("on")
        return ast.JoinExpr(kind, left, right, on=self.expression(), location=start)

    def _table_source(self) -> ast.Node:
        key = self._curr.key
        if key == "(":
            return self._source_in_parentheses()
        if key == "lateral":
            self.advance()
            if self._curr.key == "(":
                start = self._curr.start
                return self._subselect(self.select_in_parentheses(), start, lateral=True)
            return self._function_source(lateral=True)
        if key == "rows" and self.peek() == "from":
            return self._function_source(lateral=False)
        if key == "xmltable" and self.peek() == "(":
            self.refuse("XMLTABLE", self._curr.start)
        if self._at_function():
            return self._function_source(lateral=False)
        return self._parse_sample(self.relation_expression(alias=True))

    def _subselect(self, query: ast.SelectStmt, start: int, *, lateral: bool = False) -> ast.RangeSubselect:
        """A query in FROM with its alias, which release 15 requires. Raises 42601 without one."""
        alias = self.optional_alias()
        if alias is None:
            what, example = ("VALUES", "VALUES") if query.values else ("subquery", "SELECT")
            raise SqlError(
                "42601",
                f"{what} in FROM must have an alias",
                hint=f"For example, FROM ({example} ...) [AS] foo.",
                position=start + 1,
            )
        return ast.RangeSubselect(query, alias, lateral, location=start)

    def _at_function(self) -> bool:
        """Whether a call comes next rather than a relation: by the parenthesis after the name."""
        key = self._curr.key
        if key in SPECIAL_FUNCTION_START and (key not in COLUMN_NAME or self.peek() == "("):
            return True
        if key not in COLUMN_NAME:
            return key in TYPE_FUNCTION_NAME
        distance = 1
        while self.peek(distance) == ".":
            distance += 2
        if self.peek(distance) != "(":
            return False
        return key in TYPE_FUNCTION_NAME or distance > 1

    def _parse_sample(self, relation: ast.Node) -> ast.Node:
        if self._curr.key != "tablesample":
            return relation
        self.advance()
        start = self._curr.start
        method = self._function_name()
        self.expect("(")
        arguments = self.expressions()
        self.expect(")")
        repeatable = None
        if self.accept("repeatable"):
            self.expect("(")
            repeatable = self.expression()
            self.expect(")")
        return ast.RangeTableSample(relation, method[-1], arguments, repeatable, location=start)

    def _function_name(self) -> tuple[str, ...]:
        if self.peek() != ".":
            return (self.type_function_name(),)
        return self.any_name()

    def _source_in_parentheses(self) -> ast.Node:
        """( query ) [alias], or ( a JOIN b ) [alias]."""
        start = self._curr.start
        inner = self._inside_parentheses()
        if isinstance(inner, ast.SelectStmt):
            return self._subselect(inner, start)
        alias = self.optional_alias()
        return replace(inner, alias=alias) if alias is not None else inner

    def _inside_parentheses(self) -> ast.SelectStmt | ast.JoinExpr:
        """( ... ), without an alias: a query or a join."""
        self.expect("(")
        start = self._curr.start
        if self.at_select():
            query = self.select_without_parentheses()
            self.expect(")")
            return query
        left: ast.Node
        if self._curr.key == "(":
            inner = self._inside_parentheses()
            if isinstance(inner, ast.SelectStmt):
                if self.at_query_continuation():
                    inner = self.continue_select(inner)
                    self.expect(")")
                    return inner
                if self.accept(")"):
                    return inner
                if not self.at_name() and self._curr.key not in _JOINS and self._curr.key != "as":
                    self.fail()
                left = self._subselect(inner, start)
            elif self.accept(")"):
                return inner
            else:
                alias = self.optional_alias()
                left = replace(inner, alias=alias) if alias is not None else inner
                if alias is None and self._curr.key not in _JOINS:
                    self.fail()
        else:
            left = self._table_source()
        if self._curr.key not in _JOINS:
            if isinstance(left, ast.JoinExpr) and left.alias is not None and self.accept(")"):
                self.fail(self._tokens[self._index - 1])
            self.fail()
        joined = self._joins(left)
        assert isinstance(joined, ast.JoinExpr)
        self.expect(")")
        return joined

    def _function_source(self, *, lateral: bool) -> ast.Node:
        start = self._curr.start
        functions: list[ast.Node] = []
        inside: list[tuple[ast.ColumnDefinitionItem, ...]] = []
        if self._curr.key == "rows" and self.peek() == "from":
            self.expect("rows", "from", "(")
            while True:
                functions.append(self._windowless_function())
                own: tuple[ast.ColumnDefinitionItem, ...] = ()
                if self.accept("as"):
                    self.expect("(")
                    own = self._column_definitions()
                inside.append(own)
                if not self.accept(","):
                    break
            self.expect(")")
        else:
            functions.append(self._windowless_function())
        ordinality = self.accept_words("with", "ordinality")
        alias, definitions = self._function_alias()
        lists = tuple(inside) if any(inside) else ()
        return ast.RangeFunction(tuple(functions), alias, lateral, ordinality, definitions, lists, location=start)

    def _windowless_function(self) -> ast.Node:
        token = self._curr
        special = self.special_call(self.peek())
        if special is not None:
            return special
        names = self._function_name()
        if self._curr.key != "(":
            self.fail()
        return self.call(names, token, windowless=True)

    def _function_alias(self) -> tuple[ast.Alias | None, tuple[ast.ColumnDefinitionItem, ...]]:
        """[AS] name, [AS] name (columns), AS (definitions), [AS] name (definitions)."""
        start = self._curr.start
        explicit = self.accept("as")
        if explicit and self._curr.key == "(":
            self.expect("(")
            return None, self._column_definitions()
        if not explicit and not self.at_name():
            return None, ()
        name = self.column_name()
        if self._curr.key != "(":
            return ast.Alias(name, location=start), ()
        self.expect("(")
        if self.peek() in (",", ")"):
            columns = self.names()
            self.expect(")")
            return ast.Alias(name, columns, location=start), ()
        return ast.Alias(name, location=start), self._column_definitions()

    def _column_definitions(self) -> tuple[ast.ColumnDefinitionItem, ...]:
        items = []
        while True:
            start = self._curr.start
            name = self.column_name()
            type_name = self.type_name()
            at, collation = self._curr.start, self.any_name() if self.accept("collate") else ()
            items.append(ast.ColumnDefinitionItem(name, type_name, collation, at if collation else -1, location=start))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(items)
