"""Views, sequences, schemas, databases, tablespaces; DROP, TRUNCATE, COMMENT, REFRESH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.sql import ast
from engine.sql.parser.tables import Tables

# DROP and COMMENT: the words of a kind of object, and its name in the tree.
_KINDS: Final[dict[tuple[str, ...], str]] = {
    ("materialized", "view"): "matview",
    ("procedural", "language"): "language",
    **{(word,): word for word in ("table", "index", "view", "sequence", "schema", "type", "domain", "collation")},
    **{(word,): word for word in ("conversion", "statistics", "extension", "publication", "server", "language")},
    **{(word,): word for word in ("function", "procedure", "routine", "aggregate")},
    **{
        tuple(words.split()): words
        for words in ("foreign data wrapper", "foreign table", "access method", "event trigger")
    },
    **{
        ("text", "search", word): f"text search {word}"
        for word in ("configuration", "dictionary", "parser", "template")
    },
}
_PHRASES: Final = tuple(_KINDS)
_SIMPLE_NAMES: Final = frozenset(
    ("schema", "extension", "publication", "server", "access method", "event trigger", "language")
) | {"foreign data wrapper"}
_DATABASE_OPTIONS: Final = frozenset(("IDENT", "connection", "encoding", "location", "owner", "tablespace", "template"))


class Objects(Tables):
    """Definitions of objects other than tables."""

    # ---- views ----

    def create_view(self, start: int, persistence: str, *, replace: bool) -> ast.Node:
        """After CREATE [OR REPLACE] [TEMP]: [RECURSIVE] VIEW ..."""
        recursive = self.accept("recursive")
        self.expect("view")
        relation = self.qualified_name()
        columns = self.names_in_parentheses() if recursive else self.optional_names_in_parentheses()
        options = self.with_options()
        self.expect("as")
        at = self._curr.start
        query = self.select()
        text = self.source(at)
        check_option: str | None = None
        if self.accept("with"):
            check_option = self.optional_keyword("cascaded", "local") or "cascaded"
            self.expect("check", "option")
        return ast.ViewStmt(
            relation,
            columns,
            query,
            replace,
            recursive,
            persistence,
            options,
            check_option,
            text,
            location=start,
        )

    def create_materialized_view(self, start: int) -> ast.Node:
        self.expect("materialized", "view")
        if_not_exists = self.if_not_exists()
        relation = self.qualified_name()
        columns = self.optional_names_in_parentheses()
        if self.accept("using"):
            self.column_name()
        options = self.with_options()
        tablespace = self.optional_tablespace()
        self.expect("as")
        at = self._curr.start
        query = self.select()
        text = self.source(at)
        return ast.CreateTableAsStmt(
            relation,
            columns,
            query,
            if_not_exists=if_not_exists,
            with_data=self.with_data(),
            materialized=True,
            options=options,
            tablespace=tablespace,
            query_text=text,
            location=start,
        )

    def refresh(self) -> ast.Node:
        start = self.expect("refresh").start
        self.expect("materialized", "view")
        concurrently = self.accept("concurrently")
        relation = self.qualified_name()
        return ast.RefreshMatViewStmt(relation, concurrently, self.with_data(), location=start)

    # ---- sequences, schemas ----

    def create_sequence(self, start: int, persistence: str) -> ast.Node:
        self.expect("sequence")
        if_not_exists = self.if_not_exists()
        relation = self.qualified_name()
        return ast.SequenceStmt(relation, self.sequence_options(), True, if_not_exists, persistence, location=start)

    def create_schema(self, start: int) -> ast.Node:
        self.expect("schema")
        if_not_exists = self.if_not_exists()
        name: str | None = None
        owner: str | None = None
        if self.accept("authorization"):
            owner = self.role_name()
        else:
            name = self.column_name()
            if self.accept("authorization"):
                owner = self.role_name()
        elements = []
        while self._curr.key in ("create", "grant"):
            at = self._curr.start
            if if_not_exists:
                message = "CREATE SCHEMA IF NOT EXISTS cannot include schema elements"
                self.complain(message, at, "0A000")
            elements.append(self.statement())
        return ast.CreateSchemaStmt(name, owner, if_not_exists, tuple(elements), location=start)

    # ---- databases, tablespaces ----

    def create_database(self, start: int) -> ast.Node:
        self.expect("database")
        name = self.column_name()
        parent = self.column_name() if self.accept("from") else None
        backup = None
        if parent is not None and self.accept("in"):
            if self._curr.text.lower() != "backup":  # not a keyword in PostgreSQL
                self.fail()
            self.advance()
            backup = self.string()
        as_of = self.as_of() if parent is not None and self._curr.key == "as" else None
        self.accept("with")
        return ast.CreateDatabaseStmt(name, self.database_options(), parent, as_of, backup, location=start)

    def database_options(self) -> tuple[tuple[str, str], ...]:
        """createdb_opt_list: name [=] value."""
        options = []
        while self._curr.key in _DATABASE_OPTIONS:
            if self.accept("connection"):
                self.expect("limit")
                name = "connection_limit"
            else:
                name = self.advance().text
            self.accept("=")
            options.append((name, self.advance().text if self._curr.key == "default" else self._setting_value()))
        return tuple(options)

    def drop_database(self, start: int) -> ast.Node:
        self.expect("database")
        if_exists = self.if_exists()
        name = self.column_name()
        force = False
        if self._curr.key in ("with", "("):
            self.accept("with")
            self.expect("(", "force")
            while self.accept(","):
                self.expect("force")
            self.expect(")")
            force = True
        return ast.DropDatabaseStmt(name, if_exists, force, location=start)

    def create_tablespace(self, start: int) -> ast.Node:
        self.expect("tablespace")
        name = self.column_name()
        owner = self.role_name() if self.accept("owner") else None
        directory = self.string() if self.accept("location") else None
        options = self.option_list() if self.accept("with") else ()
        return ast.TablespaceStmt("create", name, owner, directory, options, location=start)

    def drop_tablespace(self, start: int) -> ast.Node:
        self.expect("tablespace")
        if_exists = self.if_exists()
        return ast.TablespaceStmt("drop", self.column_name(), if_exists=if_exists, location=start)

    # ---- DROP, TRUNCATE, COMMENT ----

    def object_kind(self) -> str | None:
        """Takes the words of a kind of object; None if another kind comes next."""
        words = self.accept_phrase(_PHRASES)
        return None if words is None else _KINDS[words]

    def drop_objects(self, start: int, kind: str) -> ast.Node:
        """After DROP and the kind."""
        concurrently = kind == "index" and self.accept("concurrently")
        if_exists = self.if_exists()
        names = [self._object_name(kind)]
        while self.accept(","):
            names.append(self._object_name(kind))
        return ast.DropStmt(kind, tuple(names), if_exists, self.drop_behavior(), concurrently, location=start)

    def _object_name(self, kind: str) -> tuple[str, ...]:
        if kind in _SIMPLE_NAMES:
            return (self.column_name(),)
        return self.type_name().names if kind in ("type", "domain") else self.any_name()

    if TYPE_CHECKING:

        def comment_on_function(self, start: int, kind: str) -> ast.Node: ...
        def comment_on_aggregate(self, start: int) -> ast.Node: ...
        def comment_on_operator(self, start: int) -> ast.Node: ...
        def comment_on_cast(self, start: int) -> ast.Node: ...
        def function_signatures(self) -> tuple[ast.FunctionSignature, ...]: ...

    def truncate(self) -> ast.Node:
        start = self.expect("truncate").start
        self.accept("table")
        relations = self.relation_expressions()
        restart = False
        if self._curr.key in ("continue", "restart"):
            restart = self.advance().key == "restart"
            self.expect("identity")
        return ast.TruncateStmt(relations, restart, self.drop_behavior(), location=start)

    def comment(self) -> ast.Node:
        start = self.expect("comment").start
        self.expect("on")
        on: tuple[str, ...] = ()
        if self.accept("column"):
            kind, names = "column", self.any_name()
        elif self._curr.key in ("database", "tablespace", "role"):
            kind = self.advance().key
            names = (self.column_name(),)
        elif self._curr.key in ("constraint", "trigger", "rule", "policy"):
            kind = self.advance().key
            names = (self.column_name(),)
            self.expect("on")
            if kind == "constraint" and self.accept("domain"):
                kind = "domain constraint"
            on = self.any_name()
        else:
            if self._curr.key == "operator" and self.peek() not in ("class", "family"):
                return self.comment_on_operator(start)
            if self._curr.key == "cast":
                return self.comment_on_cast(start)
            known = self.object_kind()
            if known is None:
                what = self._curr.key.upper()
                if not what.replace("_", "").isalpha():
                    self.fail()
                return self.skip_statement(f"COMMENT ON {what}", start)
            if known in ("function", "procedure", "routine"):
                return self.comment_on_function(start, known)
            if known == "aggregate":
                return self.comment_on_aggregate(start)
            kind, names = known, self._object_name(known)
        self.expect("is")
        text = None
        if not self.accept("null"):
            text = self.string()
        return ast.CommentStmt(kind, names, text, on, location=start)
