"""The statement level: the first words select the rule for the rest.

A statement of PostgreSQL without a tree here is skipped to its end and becomes a RefusedStmt, which the session refuses
by its name (0A000). If no statement begins with the words, the error is 42601 at the first word that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.sql import ast
from engine.sql.parser.expressions import SELECT_START
from engine.sql.parser.foreign import ForeignObjects
from engine.sql.parser.policies import Policies
from engine.sql.parser.text_search import TextSearch

# The words after CREATE, ALTER or DROP of statements that are refused by name.
_FOREIGN_OBJECTS: Final = (
    ("access", "method"),
    ("conversion",),
    ("language",),
    ("operator", "class"),
    ("operator", "family"),
    ("publication",),
    ("subscription",),
    ("transform",),
)
_REPLACEABLE: Final = (
    ("language",),
    ("procedural", "language"),
    ("transform",),
    ("trusted", "language"),
    ("trusted", "procedural", "language"),
)
_PARTS_OF_INDEXES: Final = ("class", "family")
_ONLY_ALTERED: Final = (("large", "object"),)


class Statements(TextSearch, Policies, ForeignObjects):
    """stmtmulti."""

    def statements(self) -> list[ast.Statement]:
        """statement; statement; ..."""
        found: list[ast.Statement] = []
        while True:
            while self.accept(";"):
                pass
            if self._curr.key == "":
                return found
            start = self._curr.start
            self._highest_parameter = 0
            self._constants = False
            tree = self.statement()
            text = self.source(start)
            found.append(ast.Statement(tree, text, start, self._highest_parameter, self.sql, self._constants))
            if self._curr.key not in (";", ""):
                self.fail()

    def expect_end(self) -> None:
        if self._curr.key != "":
            self.fail()

    def statement(self) -> ast.Node:
        key = self._curr.key
        if key in SELECT_START or key == "(":
            return self.preparable_statement()
        rule = _RULES.get(key)
        return rule(self) if rule is not None else self.preparable_statement()

    # ---- CREATE ----

    def create(self) -> ast.Node:
        start = self.expect("create").start
        if self._curr.key == "or":
            return self._create_or_replace(start)
        persistence = self.persistence()
        key = self._curr.key
        if key == "table":
            return self.create_table(start, persistence)
        if key == "sequence":
            return self.create_sequence(start, persistence)
        if key in ("view", "recursive"):
            return self.create_view(start, persistence, replace=False)
        if key == "materialized":
            if persistence != "p":
                self.refuse("CREATE UNLOGGED MATERIALIZED VIEW", start)
            return self.create_materialized_view(start)
        if persistence != "p":
            self.fail()
        return self._create_object(start, key)

    def _create_object(self, start: int, key: str) -> ast.Node:
        if key in ("unique", "index"):
            return self.create_index(start)
        if key == "schema":
            return self.create_schema(start)
        if key == "database":
            return self.create_database(start)
        if key == "tablespace":
            return self.create_tablespace(start)
        if key in ("role", "group") or (key == "user" and self.peek() != "mapping"):
            return self.create_role(start)
        if key == "type":
            return self.create_type(start)
        if key == "domain":
            return self.create_domain(start)
        if key == "collation":
            return self.create_collation(start)
        if key == "statistics":
            return self.create_statistics(start)
        if key == "extension":
            return self.create_extension(start)
        if key in ("function", "procedure"):
            return self.create_function(start, self.advance().key, replace=False)
        if key == "aggregate":
            return self.create_aggregate(start, replace=False)
        if key == "operator" and self.peek() not in _PARTS_OF_INDEXES:
            return self.create_operator(start)
        if key == "cast":
            return self.create_cast(start)
        if key == "text":
            return self.create_text_search(start)
        if key in ("constraint", "trigger"):
            return self.create_trigger(start, replace=False)
        if key == "rule":
            return self.create_rule(start, replace=False)
        if key == "event":
            return self.create_event_trigger(start)
        if key == "policy":
            return self.create_policy(start)
        if key == "foreign":
            return self.create_foreign(start)
        if key == "server":
            return self.create_server(start)
        if key == "user":
            return self.user_mapping(start, "create")
        if self.accept_change_stream():
            return self.create_change_stream(start)
        return self._refuse("CREATE", start, (*_FOREIGN_OBJECTS, *_REPLACEABLE))

    def _create_or_replace(self, start: int) -> ast.Node:
        self.expect("or", "replace")
        persistence = self.persistence()
        if self._curr.key in ("view", "recursive"):
            return self.create_view(start, persistence, replace=True)
        if self._curr.key in ("function", "procedure"):
            return self.create_function(start, self.advance().key, replace=True)
        if self._curr.key == "aggregate":
            return self.create_aggregate(start, replace=True)
        if self._curr.key in ("constraint", "trigger"):
            return self.create_trigger(start, replace=True)
        if self._curr.key == "rule":
            return self.create_rule(start, replace=True)
        return self._refuse("CREATE", start, _REPLACEABLE)

    def _refuse(self, verb: str, start: int, kinds: tuple[tuple[str, ...], ...]) -> ast.Node:
        words = self.accept_phrase(kinds)
        if words is None:
            self.fail()
        return self.skip_statement(f"{verb} {' '.join(words).upper()}", start)

    # ---- ALTER, DROP ----

    def alter(self) -> ast.Node:
        start = self.expect("alter").start
        key = self._curr.key
        if key == "default" and self.peek() == "privileges":
            return self.default_privileges(start)
        if key in ("table", "index", "view", "sequence", "materialized"):
            return self.alter_relation(start)
        if key == "schema":
            return self.alter_schema(start)
        if key == "database":
            return self.alter_database(start)
        if key == "tablespace":
            return self.alter_tablespace(start)
        if key in ("role", "group") or (key == "user" and self.peek() != "mapping"):
            return self.alter_role(start)
        if key == "type":
            return self.alter_type(start)
        if key == "domain":
            return self.alter_domain(start)
        if key == "collation":
            return self.alter_collation(start)
        if key == "statistics":
            return self.alter_statistics(start)
        if key == "extension":
            return self.alter_extension(start)
        if key in ("function", "procedure", "routine"):
            return self.alter_function(start, self.advance().key)
        if key == "aggregate":
            return self.alter_aggregate(start)
        if key == "operator" and self.peek() not in _PARTS_OF_INDEXES:
            return self.alter_operator(start)
        if key == "policy":
            return self.alter_policy(start)
        if key == "text":
            return self.alter_text_search(start)
        if key == "trigger":
            return self.alter_trigger(start)
        if key == "foreign":
            return self.alter_foreign(start)
        if key == "server":
            return self.alter_server(start)
        if key == "user":
            return self.user_mapping(start, "alter")
        if key == "rule":
            return self.alter_rule(start)
        if key == "event":
            return self.alter_event_trigger(start)
        if self.accept_change_stream():
            return self.alter_change_stream(start)
        if key == "system":
            return self.alter_system(start)
        return self._refuse("ALTER", start, (*_FOREIGN_OBJECTS, *_ONLY_ALTERED))

    def drop(self) -> ast.Node:
        start = self.expect("drop").start
        key = self._curr.key
        if key == "database":
            return self.drop_database(start)
        if key == "tablespace":
            return self.drop_tablespace(start)
        if key in ("role", "group") or (key == "user" and self.peek() != "mapping"):
            return self.drop_role(start)
        if key == "user":
            return self.user_mapping(start, "drop")
        if key == "owned":
            self.expect("owned", "by")
            roles = self.role_names()
            return ast.OwnedStmt(roles, None, self.drop_behavior(), location=start)
        if self.accept_change_stream():
            return self.drop_change_streams(start)
        kind = self.object_kind()
        if kind == "extension":
            return self.drop_extension(start)
        if kind in ("function", "procedure", "routine"):
            return self.drop_functions(start, kind)
        if kind == "aggregate":
            return self.drop_aggregates(start)
        if key == "operator" and self.peek() not in _PARTS_OF_INDEXES:
            return self.drop_operators(start)
        if key == "cast":
            return self.drop_cast(start)
        if key in ("trigger", "rule", "policy"):
            return self.drop_from_table(start, self.advance().key)
        if kind is not None:
            return self.drop_objects(start, kind)
        return self._refuse("DROP", start, _FOREIGN_OBJECTS)

    # ---- refused statements ----

    def _do(self) -> ast.Node:
        """DO with its options in any order."""
        start = self.expect("do").start
        language, body, literal = "", None, None
        while self._curr.key in ("SCONST", "language"):
            at = self._curr.start
            if self.accept("language"):
                if language:
                    self.complain("conflicting or redundant options", at)
                language = self.string() if self._curr.key == "SCONST" else self.non_reserved_word()
            elif body is not None:
                self.complain("conflicting or redundant options", at)
            else:
                body = self.string()
                literal = at, self.source(at)
        if body is None:
            if self._curr.key != "" or not language:
                self.fail()
            self.complain("no inline code specified", -1)
        return ast.DoStmt(language or "plpgsql", body, literal, location=start)

    def _cluster(self) -> ast.Node:
        start = self.expect("cluster").start
        if self._curr.key == "(":
            for name, _ in self.utility_options():
                if name.lower() != "verbose":
                    self.complain(f'unrecognized CLUSTER option "{name}"', start)
        else:
            self.accept("verbose")
        if not self.at_name():
            return ast.ClusterStmt(location=start)
        relation = self.qualified_name()
        if relation.schema is None and self.accept("on"):  # the order of PostgreSQL before 8.3
            return ast.ClusterStmt(self.qualified_name(), relation.name, location=start)
        return ast.ClusterStmt(relation, self.column_name() if self.accept("using") else None, location=start)

    def _reindex(self) -> ast.Node:
        start = self.expect("reindex").start
        concurrently = False
        if self.accept("("):
            while True:
                option = self.label()
                if option not in ("verbose", "concurrently", "tablespace"):
                    self.complain(f'unrecognized REINDEX option "{option}"', start)
                if option == "tablespace":
                    self.refuse("REINDEX (TABLESPACE)", start)
                value = self.advance().text if self._curr.key not in (",", ")") else "on"
                if option == "concurrently":
                    concurrently = value.lower() not in ("off", "false", "0")
                if not self.accept(","):
                    break
            self.expect(")")
        kind = self.expect_one_of("index", "table", "schema", "database", "system")
        concurrently = self.accept("concurrently") or concurrently
        relation = self.qualified_name()
        return ast.ReindexStmt(kind, (relation.schema, relation.name), concurrently, location=start)

    def _load(self) -> ast.Node:
        return self.skip_statement("LOAD", self.expect("load").start)

    def _reassign(self) -> ast.Node:
        start = self.expect("reassign").start
        self.expect("owned", "by")
        roles = self.role_names()
        self.expect("to")
        return ast.OwnedStmt(roles, self.role_name(), location=start)

    def _security_label(self) -> ast.Node:
        start = self.expect("security").start
        self.expect("label")
        return self.skip_statement("SECURITY LABEL", start)


_RULES: Final[dict[str, Callable[[Statements], ast.Node]]] = {
    "abort": Statements.end_transaction,
    "alter": Statements.alter,
    "analyse": Statements.vacuum,
    "analyze": Statements.vacuum,
    "begin": Statements.begin,
    "call": Statements.call_procedure,
    "checkpoint": Statements.checkpoint,
    "close": Statements.close,
    "cluster": Statements._cluster,
    "comment": Statements.comment,
    "commit": Statements.end_transaction,
    "copy": Statements.copy,
    "create": Statements.create,
    "deallocate": Statements.deallocate,
    "declare": Statements.declare,
    "discard": Statements.discard,
    "do": Statements._do,
    "drop": Statements.drop,
    "end": Statements.end_transaction,
    "execute": Statements.execute,
    "explain": Statements.explain,
    "fetch": Statements.fetch,
    "grant": Statements.grant,
    "import": Statements.import_schema,
    "listen": Statements.notify,
    "load": Statements._load,
    "lock": Statements.lock,
    "move": Statements.fetch,
    "notify": Statements.notify,
    "prepare": Statements.prepare,
    "reassign": Statements._reassign,
    "refresh": Statements.refresh,
    "reindex": Statements._reindex,
    "release": Statements.release,
    "reset": Statements.reset,
    "revoke": Statements.grant,
    "rollback": Statements.end_transaction,
    "savepoint": Statements.savepoint,
    "security": Statements._security_label,
    "set": Statements.set,
    "show": Statements.show,
    "start": Statements.begin,
    "truncate": Statements.truncate,
    "unlisten": Statements.notify,
    "vacuum": Statements.vacuum,
}
