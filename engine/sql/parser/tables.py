"""CREATE TABLE with its elements: columns, constraints, LIKE. CREATE TABLE AS. CREATE INDEX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from engine.sql import ast
from engine.sql.parser.keywords import COLUMN_NAME
from engine.sql.parser.lexer import Token
from engine.sql.parser.sessions import Sessions

_ACTIONS: Final = {
    ("no", "action"): "a",
    ("restrict", ""): "r",
    ("cascade", ""): "c",
    ("set", "null"): "n",
    ("set", "default"): "d",
}
_LIKE_OPTIONS: Final = frozenset(
    ("comments", "compression", "constraints", "defaults", "identity", "generated", "indexes", "statistics")
) | {"storage", "all"}
_TABLE_CONSTRAINT_START: Final = frozenset(("constraint", "check", "unique", "primary", "foreign"))


class Tables(Sessions):
    """Definitions of tables and indexes."""

    def create_table(self, start: int, persistence: str) -> ast.Node:
        """After CREATE [TEMP | UNLOGGED]: TABLE ..."""
        self.expect("table")
        if_not_exists = self.if_not_exists()
        relation = self.qualified_name()
        if self._curr.key == "of":
            self.refuse("CREATE TABLE OF", self._curr.start)
        if self._curr.key == "partition":
            return self._create_partition(start, relation, persistence, if_not_exists)
        if self._curr.key != "(" or self._is_column_list_of_query():
            return self._create_table_as(start, relation, persistence, if_not_exists)
        elements = self.table_elements()
        if self.accept("inherits"):
            self.expect("(")
            inherits = self.qualified_names()
            self.expect(")")
        else:
            inherits = ()
        partition_by = self._partition_by()
        access_method = self.column_name() if self.accept("using") else None
        options = self.with_options()
        on_commit = self._on_commit()
        tablespace = self.optional_tablespace()
        return ast.CreateStmt(
            relation,
            elements,
            persistence,
            if_not_exists,
            inherits,
            partition_by,
            None,
            options,
            on_commit,
            tablespace,
            access_method,
            location=start,
        )

    def _create_partition(
        self, start: int, relation: ast.RangeVar, persistence: str, if_not_exists: bool
    ) -> ast.CreateStmt:
        self.expect("partition", "of")
        parent = self.qualified_name()
        elements: list[ast.ColumnDef | ast.ConstraintDef] = []
        if self.accept("("):
            while True:
                elements.append(self._typed_table_element())
                if not self.accept(","):
                    break
            self.expect(")")
        bound = self.partition_bound()
        partition_by = self._partition_by()
        access_method = self.column_name() if self.accept("using") else None
        options = self.with_options()
        on_commit = self._on_commit()
        tablespace = self.optional_tablespace()
        return ast.CreateStmt(
            relation,
            tuple(elements),
            persistence,
            if_not_exists,
            (parent,),
            partition_by,
            bound,
            options,
            on_commit,
            tablespace,
            access_method,
            location=start,
        )

    def _typed_table_element(self) -> ast.ColumnDef | ast.ConstraintDef:
        if self.at_table_constraint():
            return self.table_constraint()
        at = self._curr.start
        name = self.column_name()
        if self.accept("with"):
            self.expect("options")
        constraints, collation = self.column_constraints()
        return ast.ColumnDef(name, None, constraints, collation, location=at)

    def partition_bound(self) -> ast.BoundSpec:
        """PartitionBoundSpec."""
        start = self._curr.start
        if self.accept("default"):
            return ast.BoundSpec("d", location=start)
        self.expect("for", "values")
        start = self._curr.start
        kind = self.expect_one_of("in", "from", "with")
        self.expect("(")
        if kind == "with":
            return self._hash_bound(start)
        values = self.expressions()
        self.expect(")")
        if kind == "in":
            return ast.BoundSpec("l", values, location=start)
        self.expect("to", "(")
        upper = self.expressions()
        self.expect(")")
        return ast.BoundSpec("r", values, upper, location=start)

    def _hash_bound(self, start: int) -> ast.BoundSpec:
        """After WITH (: modulus n, remainder m"""
        found: dict[str, int] = {}
        while True:
            at = self._curr.start
            name = self.non_reserved_word()
            value = self.integer()
            if name not in ("modulus", "remainder"):
                self.complain(f'unrecognized hash partition bound specification "{name}"', at)
            if name in found:
                self.complain(f"{name} for hash partition provided more than once", at, "42710")
            found[name] = value
            if not self.accept(","):
                break
        self.expect(")")
        for name in ("modulus", "remainder"):
            if name not in found:
                self.complain(f"{name} for hash partition must be specified", -1)
        return ast.BoundSpec("h", modulus=found["modulus"], remainder=found["remainder"], location=start)

    def _is_column_list_of_query(self) -> bool:
        """Whether the next parenthesis contains names of columns for CREATE TABLE AS, (a, b), and not definitions."""
        return self.peek(1) in COLUMN_NAME and self.peek(2) in (",", ")")

    def _create_table_as(self, start: int, relation: ast.RangeVar, persistence: str, if_not_exists: bool) -> ast.Node:
        columns = self.optional_names_in_parentheses()
        if self._curr.key == "using":
            self.advance()
            self.column_name()
        options = self.with_options()
        on_commit = self._on_commit()
        tablespace = self.optional_tablespace()
        self.expect("as")
        at = self._curr.start
        query: ast.Node = self.execute() if self._curr.key == "execute" else self.select()
        text = self.source(at)
        return ast.CreateTableAsStmt(
            relation,
            columns,
            query,
            persistence,
            if_not_exists,
            self.with_data(),
            False,
            options,
            on_commit,
            tablespace,
            text,
            location=start,
        )

    def with_data(self) -> bool:
        if self._curr.key != "with":
            return True
        self.expect("with")
        negated = self.accept("no")
        self.expect("data")
        return not negated

    def _partition_by(self) -> ast.PartitionSpec | None:
        if self._curr.key != "partition":
            return None
        start = self._curr.start
        self.expect("partition", "by")
        return ast.PartitionSpec(self.column_name(), self.index_elements(), location=start)

    def _on_commit(self) -> str:
        if not self.accept("on"):
            return ""
        self.expect("commit")
        if self.accept("drop"):
            return "drop"
        action = self.expect_one_of("delete", "preserve")
        self.expect("rows")
        return action

    def optional_tablespace(self) -> str | None:
        return self.column_name() if self.accept("tablespace") else None

    def with_options(self) -> tuple[tuple[str, str], ...]:
        """[WITH (name [= value], ...)] or WITHOUT OIDS; the default value is 'true'."""
        if self.accept("without"):
            self.expect("oids")
            return ()
        return self.option_list() if self.accept("with") else ()

    def option_list(self, without_value: str = "true") -> tuple[tuple[str, str], ...]:
        """( name [= value], ... )"""
        self.expect("(")
        options = []
        while True:
            name = self.label()
            if self.accept("."):
                name += "." + self.label()
            options.append((name, self.option_value() if self.accept("=") else without_value))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(options)

    def option_value(self) -> str:
        """def_arg as text."""
        key = self._curr.key
        if key in ("ICONST", "FCONST", "+", "-"):
            return self.signed_number()
        if key == "SCONST":
            return self.advance().text
        return self.label()

    # ---- elements ----

    def table_elements(self) -> tuple[ast.ColumnDef | ast.ConstraintDef | ast.LikeClause, ...]:
        self.expect("(")
        items: list[ast.ColumnDef | ast.ConstraintDef | ast.LikeClause] = []
        if self.accept(")"):
            return ()
        while True:
            items.append(self._table_element())
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(items)

    def _table_element(self) -> ast.ColumnDef | ast.ConstraintDef | ast.LikeClause:
        if self.at_table_constraint():
            return self.table_constraint()
        if self._curr.key == "like":
            return self._like()
        return self.column_definition()

    def at_table_constraint(self) -> bool:
        """Whether a table constraint comes next. `exclude` may also be a column's name."""
        key = self._curr.key
        return key in _TABLE_CONSTRAINT_START or (key == "exclude" and self.peek() in ("using", "("))

    def _like(self) -> ast.LikeClause:
        start = self.expect("like").start
        relation = self.qualified_name()
        chosen: list[str] = []
        while self._curr.key in ("including", "excluding"):
            including = self.advance().key == "including"
            if self._curr.key not in _LIKE_OPTIONS:
                self.fail()
            option = self.advance().key
            options = sorted(_LIKE_OPTIONS - {"all"}) if option == "all" else [option]
            if including:
                chosen += [each for each in options if each not in chosen]
            else:
                chosen = [each for each in chosen if each not in options]
        return ast.LikeClause(relation, tuple(chosen), location=start)

    def column_definition(self) -> ast.ColumnDef:
        start = self._curr.start
        name = self.column_name()
        type_name = self.type_name()
        storage: str | None = None
        if self._curr.key == "storage":
            self.fail()
        if self.accept("compression"):
            self.label()
        options = self.foreign_options()
        constraints, collation = self.column_constraints()
        return ast.ColumnDef(name, type_name, constraints, collation, storage, options, location=start)

    def foreign_options(self) -> tuple[ast.ForeignOption, ...]:
        """create_generic_options: [OPTIONS (name 'value', ...)]"""
        return self._options_of(changes=False) if self._curr.key == "options" and self.peek() == "(" else ()

    def foreign_changes(self) -> tuple[ast.ForeignOption, ...]:
        """alter_generic_options: OPTIONS ([ADD | SET | DROP] name ['value'], ...)"""
        return self._options_of(changes=True)

    def _options_of(self, *, changes: bool) -> tuple[ast.ForeignOption, ...]:
        self.expect("options", "(")
        found = []
        while True:
            at = self._curr.start
            action = self.advance().key if changes and self._curr.key in ("add", "set", "drop") else ""
            name = self.label()
            value = "" if action == "drop" else self.string()
            found.append(ast.ForeignOption(action, name, value, location=at))
            if not self.accept(","):
                break
        self.expect(")")
        return tuple(found)

    def column_constraints(self) -> tuple[tuple[ast.ConstraintDef, ...], tuple[str, ...]]:
        constraints: list[ast.ConstraintDef] = []
        collation: tuple[str, ...] = ()
        while True:
            token = self._curr
            name = None
            if self.accept("constraint"):
                name = self.column_name()
            elif token.key == "collate":
                if collation:
                    self.complain("multiple COLLATE clauses not allowed", token.start)
                self.advance()
                collation = self.any_name()
                continue
            elif self._constraint_attribute(constraints):
                continue
            constraint = self._column_constraint(token, name)
            if constraint is None:
                if name is not None:
                    self.fail()
                return tuple(constraints), collation
            constraints.append(constraint)

    def _constraint_attribute(self, constraints: list[ast.ConstraintDef]) -> bool:
        """DEFERRABLE and similar attributes, which belong to the preceding constraint."""
        token = self._curr
        changes = self._one_attribute()
        if not changes:
            return False
        if not constraints or constraints[-1].kind not in ("primary", "unique", "exclusion", "foreign"):
            word = self.source(token.start).upper()
            self.complain(f"misplaced {word} clause", token.start)
        constraints[-1] = replace(constraints[-1], **changes)
        return True

    def _one_attribute(self) -> dict[str, Any]:
        if self.accept("deferrable"):
            return {"deferrable": True}
        if self._curr.key == "not" and self.peek() == "deferrable":
            self.expect("not", "deferrable")
            return {"deferrable": False}
        if self.accept("initially"):
            deferred = self.expect_one_of("deferred", "immediate") == "deferred"
            return {"deferrable": True, "initially_deferred": True} if deferred else {"initially_deferred": False}
        return {}

    def _column_constraint(self, token: Token, name: str | None) -> ast.ConstraintDef | None:
        key, start = self._curr.key, token.start
        if key == "not":
            self.expect("not", "null")
            return ast.ConstraintDef("not_null", name, location=start)
        if self.accept("null"):
            return ast.ConstraintDef("null", name, location=start)
        if key in ("unique", "primary"):
            kind = self._key_kind()
            not_distinct = kind == "unique" and self._nulls_not_distinct()
            constraint = ast.ConstraintDef(kind, name, nulls_not_distinct=not_distinct, location=start)
            return self._key_storage(constraint)
        if key == "check":
            return self._check(name, start)
        if self.accept("default"):
            at = self._curr.start
            expression = self.restricted_expression()
            return ast.ConstraintDef(
                "default", name, expression=expression, expression_text=self.source(at), location=start
            )
        if self.accept("generated"):
            return self._parse_generated(name, start)
        if key == "references":
            return self._references(name, (), start)
        return None

    def _key_kind(self) -> str:
        if self.accept("unique"):
            return "unique"
        self.expect("primary", "key")
        return "primary"

    def _nulls_not_distinct(self) -> bool:
        if self._curr.key != "nulls":
            return False
        self.advance()
        negated = self.accept("not")
        self.expect("distinct")
        return negated

    def _key_storage(self, constraint: ast.ConstraintDef) -> ast.ConstraintDef:
        """[INCLUDE (...)] [WITH (...)] [USING INDEX TABLESPACE name]"""
        options = self.option_list() if self._curr.key == "with" and self.accept("with") else ()
        tablespace = None
        if self._curr.key == "using":
            self.expect("using", "index", "tablespace")
            tablespace = self.column_name()
        return replace(constraint, options=options, tablespace=tablespace)

    def _check(self, name: str | None, start: int) -> ast.ConstraintDef:
        self.expect("check", "(")
        at = self._curr.start
        expression = self.expression()
        text = self.source(at)
        self.expect(")")
        no_inherit = False
        if self._curr.key == "no":
            self.expect("no", "inherit")
            no_inherit = True
        return ast.ConstraintDef(
            "check", name, expression=expression, expression_text=text, no_inherit=no_inherit, location=start
        )

    def _parse_generated(self, name: str | None, start: int) -> ast.ConstraintDef:
        if self.accept("by"):
            self.expect("default", "as", "identity")
            return self._identity(name, "d", start)
        self.expect("always", "as")
        if self.accept("identity"):
            return self._identity(name, "a", start)
        self.expect("(")
        at = self._curr.start
        expression = self.expression()
        text = self.source(at)
        self.expect(")", "stored")
        return ast.ConstraintDef("generated", name, expression=expression, expression_text=text, location=start)

    def _identity(self, name: str | None, identity: str, start: int) -> ast.ConstraintDef:
        options: tuple[tuple[str, Any], ...] = ()
        if self.accept("("):
            options = self.sequence_options()
            self.expect(")")
        return ast.ConstraintDef("identity", name, identity=identity, sequence_options=options, location=start)

    def sequence_options(self) -> tuple[tuple[str, Any], ...]:
        """SeqOptList: start, increment, minvalue, maxvalue (None for NO ...), cache, cycle, owned_by, restart, as."""
        options: list[tuple[str, Any]] = []
        while (option := self._sequence_option()) is not None:
            options.append(option)
        return tuple(options)

    def _sequence_option(self) -> tuple[str, Any] | None:
        key = self._curr.key
        if key in ("cache", "maxvalue", "minvalue"):
            self.advance()
            return key, int(self.signed_number())
        if key in ("increment", "start"):
            self.advance()
            self.accept("by" if key == "increment" else "with")
            return key, int(self.signed_number())
        if key == "cycle":
            self.advance()
            return "cycle", True
        if key == "no":
            self.advance()
            what = self.expect_one_of("maxvalue", "minvalue", "cycle")
            return what, False if what == "cycle" else None
        if key == "as":
            self.advance()
            return "as", self.simple_type_name()
        if key == "owned":
            self.expect("owned", "by")
            return "owned_by", self.any_name()
        if key == "sequence":
            self.expect("sequence", "name")
            return "name", self.any_name()
        if key != "restart":
            return None
        self.advance()
        explicit = self.accept("with")
        if explicit or self._curr.key in ("ICONST", "FCONST", "+", "-"):
            return "restart", int(self.signed_number())
        return "restart", None

    def _references(self, name: str | None, columns: tuple[str, ...], start: int) -> ast.ConstraintDef:
        """REFERENCES table [(columns)] [MATCH ...] [ON DELETE ...] [ON UPDATE ...]"""
        self.expect("references")
        references = self.qualified_name()
        referenced = self.optional_names_in_parentheses()
        match = self.expect_one_of("full", "partial", "simple")[0] if self.accept("match") else "s"
        actions: dict[str, str] = {}
        while self._curr.key == "on":
            self.advance()
            event = self.expect_one_of("delete", "update")
            if event in actions:
                self.fail()
            actions[event] = self._referential_action()
        return ast.ConstraintDef(
            "foreign",
            name,
            columns,
            references=references,
            referenced_columns=referenced,
            match=match,
            on_delete=actions.get("delete", "a"),
            on_update=actions.get("update", "a"),
            location=start,
        )

    def _referential_action(self) -> str:
        first = self.expect_one_of("no", "restrict", "cascade", "set")
        second = ""
        if first == "no":
            second = self.expect("action").key
        elif first == "set":
            second = self.expect_one_of("null", "default")
        if second in ("null", "default") and self._curr.key == "(":
            self.refuse("a column list in ON DELETE SET", self._curr.start)
        return _ACTIONS[first, second]

    # ---- table constraints ----

    def table_constraint(self) -> ast.ConstraintDef:
        start = self._curr.start
        name = self.column_name() if self.accept("constraint") else None
        key = self._curr.key
        if key == "check":
            return self._table_attributes(self._check(name, start))
        if key in ("unique", "primary"):
            return self._table_attributes(self._table_key(name, start))
        if key == "foreign":
            self.expect("foreign", "key")
            columns = self.names_in_parentheses()
            return self._table_attributes(self._references(name, columns, start))
        if key == "exclude":
            return self._table_attributes(self._exclusion(name, start))
        self.fail()

    def _table_key(self, name: str | None, start: int) -> ast.ConstraintDef:
        kind = self._key_kind()
        if self.accept("using"):
            self.expect("index")
            return ast.ConstraintDef(kind, name, using_index=self.column_name(), location=start)
        not_distinct = kind == "unique" and self._nulls_not_distinct()
        columns = self.names_in_parentheses()
        include = self.names_in_parentheses() if self.accept("include") else ()
        constraint = ast.ConstraintDef(
            kind, name, columns, nulls_not_distinct=not_distinct, include=include, location=start
        )
        return self._key_storage(constraint)

    def _exclusion(self, name: str | None, start: int) -> ast.ConstraintDef:
        """EXCLUDE [USING method] (element WITH operator, ...) [INCLUDE (...)] [WITH (...)] [WHERE (condition)]"""
        self.expect("exclude")
        method = self.column_name() if self.accept("using") else "btree"
        elements: list[ast.IndexElement] = []
        operators: list[tuple[str, ...]] = []
        self.expect("(")
        while not elements or self.accept(","):
            elements.append(self.index_element())
            self.expect("with")
            operators.append(self._excluding_operator())
        self.expect(")")
        include = self.names_in_parentheses() if self.accept("include") else ()
        constraint = ast.ConstraintDef(
            "exclusion", name, include=include, method=method, elements=tuple(elements), operators=tuple(operators),
            location=start,
        )  # fmt: skip
        constraint = self._key_storage(constraint)
        if not self.accept("where"):
            return constraint
        self.expect("(")
        where = self.expression()
        self.expect(")")
        return replace(constraint, where=where)

    def _excluding_operator(self) -> tuple[str, ...]:
        """any_operator or OPERATOR(any_operator)."""
        if not self.accept("operator"):
            return self.any_operator()
        self.expect("(")
        parts = self.any_operator()
        self.expect(")")
        return parts

    def _table_attributes(self, constraint: ast.ConstraintDef) -> ast.ConstraintDef:
        """ConstraintAttributeSpec."""
        while True:
            changes: dict[str, Any] = self._one_attribute()
            if not changes and self._curr.key == "not":
                self.expect("not", "valid")
                changes = {"not_valid": True}
            elif not changes and self._curr.key == "no":
                self.expect("no", "inherit")
                changes = {"no_inherit": True}
            if not changes:
                return constraint
            constraint = replace(constraint, **changes)

    def constraint_attributes(self) -> tuple[tuple[str, Any], ...]:
        """ConstraintAttributeSpec of ALTER CONSTRAINT, as options."""
        attributes: dict[str, Any] = {}
        while changes := self._one_attribute():
            attributes.update(changes)
        return tuple(attributes.items())

    # ---- CREATE INDEX ----

    def create_index(self, start: int) -> ast.Node:
        """After CREATE: [UNIQUE] INDEX ..."""
        unique = self.accept("unique")
        self.expect("index")
        concurrently = self.accept("concurrently")
        if_not_exists = self.if_not_exists()
        name = self.column_name() if if_not_exists or self._curr.key != "on" else None
        self.expect("on")
        relation = self.relation_expression()
        method = self.column_name() if self.accept("using") else "btree"
        elements = self.index_elements()
        include: tuple[str, ...] = ()
        if self.accept("include"):
            include = self.names_in_parentheses()
        not_distinct = self._nulls_not_distinct()
        options = self.option_list() if self.accept("with") else ()
        tablespace = self.optional_tablespace()
        where, where_text = None, ""
        if self.accept("where"):
            at = self._curr.start
            where = self.expression()
            where_text = self.source(at)
        return ast.IndexStmt(
            name,
            relation,
            elements,
            unique,
            method,
            include,
            where,
            where_text,
            not_distinct,
            concurrently,
            if_not_exists,
            options,
            tablespace,
            location=start,
        )
