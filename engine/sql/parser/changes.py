"""INSERT, UPDATE, DELETE and MERGE."""

from __future__ import annotations

from dataclasses import replace

from engine.sql import ast
from engine.sql.parser.expressions import SELECT_START
from engine.sql.parser.keywords import COLUMN_NAME
from engine.sql.parser.queries import Queries


class Changes(Queries):
    """The statements that change rows."""

    def preparable_statement(self) -> ast.Node:
        """PreparableStmt: SELECT, INSERT, UPDATE, DELETE, MERGE, each with its WITH."""
        key = self._curr.key
        if key == "with":
            with_clause = self.with_clause()
            start = self._curr.start
            node = self.preparable_statement_without_with()
            if node.with_clause is not None:
                self.complain("multiple WITH clauses not allowed", start)
            return replace(node, with_clause=with_clause)
        return self.preparable_statement_without_with()

    def preparable_statement_without_with(
        self,
    ) -> ast.SelectStmt | ast.InsertStmt | ast.UpdateStmt | ast.DeleteStmt | ast.MergeStmt:
        key = self._curr.key
        if key in SELECT_START or key == "(":
            return self.select_without_parentheses()
        if key == "insert":
            return self._insert()
        if key == "update":
            return self._update()
        if key == "delete":
            return self._delete()
        if key == "merge":
            return self._merge()
        self.fail()

    # ---- INSERT ----

    def _insert(self) -> ast.InsertStmt:
        start = self._curr.start
        self.expect("insert", "into")
        relation = self.qualified_name()
        if self.accept("as"):
            alias = ast.Alias(self.column_name())
            relation = replace(relation, alias=alias)
        columns: tuple[ast.ResTarget, ...] = ()
        if self._curr.key == "(" and self.peek() in COLUMN_NAME and (self.peek(), self.peek(2)) != ("values", "("):
            columns = self._insert_columns()
        overriding = self._overriding()
        query: ast.SelectStmt | None = None
        if not columns and not overriding and self.accept("default"):
            self.expect("values")
        else:
            query = self.select_without_parentheses()
        on_conflict = self._on_conflict() if self.accept("on") else None
        return ast.InsertStmt(relation, columns, query, on_conflict, self.returning(), None, overriding, location=start)

    def _overriding(self) -> str:
        if not self.accept("overriding"):
            return ""
        which = self.expect_one_of("user", "system")
        self.expect("value")
        return which

    def _insert_columns(self) -> tuple[ast.ResTarget, ...]:
        self.expect("(")
        items = [self._target_column()]
        while self.accept(","):
            items.append(self._target_column())
        self.expect(")")
        return tuple(items)

    def _target_column(self) -> ast.ResTarget:
        """The target column of an assignment, with subscripts and fields."""
        start = self._curr.start
        name = self.column_name()
        steps = self.indirection_steps() if self._curr.key in (".", "[") else ()
        return ast.ResTarget(None, name, steps, location=start)

    def _on_conflict(self) -> ast.OnConflict:
        start = self.expect("conflict").start
        infer: ast.InferClause | None = None
        at = self._curr.start
        if self._curr.key == "(":
            elements = self.index_elements()
            where = self.expression() if self.accept("where") else None
            infer = ast.InferClause(elements, where, location=at)
        elif self.accept("on"):
            self.expect("constraint")
            infer = ast.InferClause(constraint=self.column_name(), location=at)
        self.expect("do")
        if self.accept("nothing"):
            return ast.OnConflict(infer, "nothing", location=start)
        self.expect("update", "set")
        assignments = self.assignments()
        where = self.expression() if self.accept("where") else None
        return ast.OnConflict(infer, "update", assignments, where, location=start)

    def index_elements(self) -> tuple[ast.IndexElement, ...]:
        """( index_elem, ... ) of an index or of ON CONFLICT."""
        self.expect("(")
        items = [self.index_element()]
        while self.accept(","):
            items.append(self.index_element())
        self.expect(")")
        return tuple(items)

    def index_element(self) -> ast.IndexElement:
        start = self._curr.start
        name: str | None = None
        expression: ast.Node | None = None
        text = ""
        if self._curr.key == "(":
            self.advance()
            at = self._curr.start
            expression = self.expression()
            text = self.source(at)
            self.expect(")")
        elif self._at_function():
            expression = self._windowless_function()
            text = self.source(start)
        else:
            name = self.column_name()
        collation = self.any_name() if self.accept("collate") else ()
        opclass = () if self._at_nulls_order() or not self.at_name() else self.any_name()
        if opclass and self._curr.key == "(":
            self.refuse("operator class parameters", self._curr.start)
        direction = self.optional_keyword("asc", "desc") or "default"
        nulls = self.nulls_order()
        return ast.IndexElement(name, expression, text, collation, opclass, direction, nulls, location=start)

    def returning(self) -> tuple[ast.ResTarget, ...]:
        return self.target_list() if self.accept("returning") else ()

    # ---- UPDATE, DELETE ----

    def _update(self) -> ast.UpdateStmt:
        start = self.expect("update").start
        relation = self.target_relation()
        self.expect("set")
        assignments = self.assignments()
        from_clause = self.from_clause()
        where, cursor = self._where_or_current()
        return ast.UpdateStmt(relation, assignments, from_clause, where, self.returning(), None, cursor, location=start)

    def assignments(self) -> tuple[ast.ResTarget | ast.MultiAssign, ...]:
        items = [self._assignment()]
        while self.accept(","):
            items.append(self._assignment())
        return tuple(items)

    def _assignment(self) -> ast.ResTarget | ast.MultiAssign:
        start = self._curr.start
        if self._curr.key == "(":
            targets = self._insert_columns()
            self.expect("=")
            return ast.MultiAssign(targets, self.expression(), location=start)
        target = self._target_column()
        self.expect("=")
        return replace(target, expression=self.expression())

    def _where_or_current(self) -> tuple[ast.Node | None, str | None]:
        if not self.accept("where"):
            return None, None
        if self._curr.key == "current" and self.peek() == "of":
            self.expect("current", "of")
            return None, self.column_name()
        return self.expression(), None

    def _delete(self) -> ast.DeleteStmt:
        start = self._curr.start
        self.expect("delete", "from")
        relation = self.target_relation()
        using = self.from_list() if self.accept("using") else ()
        where, cursor = self._where_or_current()
        return ast.DeleteStmt(relation, using, where, self.returning(), None, cursor, location=start)

    # ---- MERGE ----

    def _merge(self) -> ast.MergeStmt:
        start = self._curr.start
        self.expect("merge", "into")
        relation = self.target_relation()
        self.expect("using")
        source = self.table_reference()
        self.expect("on")
        condition = self.expression()
        whens: list[ast.MergeWhen] = []
        while self._curr.key == "when" or not whens:
            whens.append(self._merge_when())
        return ast.MergeStmt(relation, source, condition, tuple(whens), location=start)

    def _merge_when(self) -> ast.MergeWhen:
        start = self.expect("when").start
        matched = not self.accept("not")
        self.expect("matched")
        condition = self.expression() if self.accept("and") else None
        self.expect("then")
        if self._curr.key == "do":
            self.expect("do", "nothing")
            return ast.MergeWhen(matched, condition, "nothing", location=start)
        if matched and self.accept("update"):
            self.expect("set")
            return ast.MergeWhen(True, condition, "update", self.assignments(), location=start)
        if matched and self.accept("delete"):
            return ast.MergeWhen(True, condition, "delete", location=start)
        if matched:
            self.fail()
        self.expect("insert")
        columns = self._insert_columns() if self._curr.key == "(" else ()
        overriding = self._overriding()
        values: tuple[ast.Node, ...] | None = None
        if columns or overriding or not self.accept("default"):
            self.expect("values", "(")
            values = self.expressions()
            self.expect(")")
        else:
            self.expect("values")
        return ast.MergeWhen(False, condition, "insert", (), columns, values, overriding, location=start)
