"""Statements about the session: transactions, settings, cursors, EXPLAIN, COPY, LOCK, VACUUM and similar ones."""

from __future__ import annotations

from typing import Any, Final

from catalog.errors import SqlError
from engine.sql import ast
from engine.sql.parser.changes import Changes

_LOCK_MODES: Final = (
    ("access", "share"),
    ("row", "share"),
    ("row", "exclusive"),
    ("share", "update", "exclusive"),
    ("share", "row", "exclusive"),
    ("share",),
    ("exclusive",),
    ("access", "exclusive"),
)


class Sessions(Changes):
    """A method for each statement, with its name; each starts at the statement's first word."""

    # ---- transactions ----

    def begin(self) -> ast.Node:
        start = self._curr.start
        kind = self.advance().key
        if kind == "start":
            self.expect("transaction")
        else:
            self.optional_keyword("work", "transaction")
        return self._transaction_modes(kind, start)

    def _transaction_modes(self, kind: str, start: int, *, required: bool = False) -> ast.TransactionStmt:
        """transaction_mode_list, separated by commas or nothing."""
        isolation: str | None = None
        read_only: bool | None = None
        deferrable: bool | None = None
        first = True
        while self._curr.key in ("isolation", "read", "deferrable", "not") or (first and required):
            if self.accept("isolation"):
                self.expect("level")
                isolation = self._isolation_level()
            elif self.accept("read"):
                read_only = self.expect_one_of("only", "write") == "only"
            else:
                negated = self.accept("not")
                self.expect("deferrable")
                deferrable = not negated
            first = False
            if self.accept(",") and self._curr.key not in ("isolation", "read", "deferrable", "not"):
                self.fail()
        return ast.TransactionStmt(kind, None, isolation, read_only, deferrable, location=start)

    def _isolation_level(self) -> str:
        if self.accept("read"):
            return f"read {self.expect_one_of('committed', 'uncommitted')}"
        if self.accept("repeatable"):
            self.expect("read")
            return "repeatable read"
        return self.expect_one_of("serializable")

    def end_transaction(self) -> ast.Node:
        """COMMIT, END, ROLLBACK and ABORT in all their forms."""
        start = self._curr.start
        kind = self.advance().key
        if kind in ("commit", "rollback") and self.accept("prepared"):
            return ast.TransactionStmt(f"{kind}_prepared", self.string(), location=start)
        self.optional_keyword("work", "transaction")
        if kind == "rollback" and self.accept("to"):
            return ast.TransactionStmt("rollback_to", self._savepoint_name(), location=start)
        chain = False
        if self.accept("and"):
            chain = not self.accept("no")
            self.expect("chain")
        return ast.TransactionStmt(kind, chain=chain, location=start)

    def savepoint(self) -> ast.Node:
        start = self.expect("savepoint").start
        return ast.TransactionStmt("savepoint", self.column_name(), location=start)

    def release(self) -> ast.Node:
        start = self.expect("release").start
        return ast.TransactionStmt("release", self._savepoint_name(), location=start)

    def _savepoint_name(self) -> str:
        """[SAVEPOINT] name, where the name may be savepoint."""
        if self._curr.key == "savepoint" and self.peek() not in ("", ";"):
            self.advance()
        return self.column_name()

    # ---- settings ----

    def _set_constraints(self, start: int) -> ast.Node:
        self.expect("constraints")
        names: list[tuple[str | None, str]] = []
        if not self.accept("all"):
            while not names or self.accept(","):
                relation = self.qualified_name()
                names.append((relation.schema, relation.name))
        mode = self.expect_one_of("deferred", "immediate")
        return ast.SetConstraintsStmt(tuple(names), mode == "deferred", location=start)

    def set(self) -> ast.Node:
        start = self.expect("set").start
        if self._curr.key == "constraints" and self.peek() not in ("to", "=", "."):
            return self._set_constraints(start)
        local = False
        if self._curr.key in ("local", "session") and self.peek() not in ("to", "=", "."):
            if self._curr.key == "session" and self.peek() == "authorization":
                return self._set_role("session_authorization", start, local=False)
            if self._curr.key == "session" and self.peek() == "characteristics":
                self.expect("session", "characteristics", "as", "transaction")
                modes = self._transaction_modes("set", start, required=True)
                return ast.SetStmt("SESSION CHARACTERISTICS", modes=modes, location=start)
            local = self.advance().key == "local"
        if self._curr.key == "transaction" and self.peek() not in ("to", "=", "."):
            self.advance()
            if self._curr.key == "snapshot":
                self.advance()
                return ast.SetStmt("TRANSACTION SNAPSHOT", (self.string(),), local=local, location=start)
            modes = self._transaction_modes("set", start, required=True)
            return ast.SetStmt("TRANSACTION", modes=modes, local=local, location=start)
        return self.setting(start, local=local)

    def setting(self, start: int, *, local: bool) -> ast.SetStmt:
        """set_rest_more: the rest of SET [LOCAL | SESSION] for one setting."""
        key, following = self._curr.key, self.peek()
        named = following in ("to", "=", ".", "from")
        if key == "time" and following == "zone":
            self.expect("time", "zone")
            return self._set_time_zone(start, local)
        if named:
            return self._set_variable(start, local)
        if key in ("role", "session"):
            return self._set_role("role" if key == "role" else "session_authorization", start, local=local)
        if key == "catalog":
            self.complain("current database cannot be changed", start, "0A000")
        if key == "schema":
            self.expect("schema")
            return ast.SetStmt("search_path", (self.string(),), local, location=start)
        if key == "names":
            self.expect("names")
            if self._curr.key == "SCONST":
                return ast.SetStmt("client_encoding", (self.string(),), local, location=start)
            self.accept("default")
            return ast.SetStmt("client_encoding", (), local, location=start)
        if key == "xml":
            self.expect("xml", "option")
            return ast.SetStmt("xmloption", (self.expect_one_of("document", "content"),), local, location=start)
        return self._set_variable(start, local)

    def _set_role(self, name: str, start: int, *, local: bool) -> ast.SetStmt:
        if name == "role":
            self.expect("role")
        else:
            self.expect("session", "authorization")
            if self.accept("default"):
                return ast.SetStmt(name, (), local, location=start)
        value = self.string() if self._curr.key == "SCONST" else self.non_reserved_word()
        return ast.SetStmt(name, (value,), local, location=start)

    def _set_variable(self, start: int, local: bool) -> ast.SetStmt:
        name = self.setting_name()
        if self.accept("from"):
            self.expect("current")
            return ast.SetStmt(name, ("current",), local, location=start)
        self.expect_one_of("to", "=")
        if self.accept("default"):
            return ast.SetStmt(name, (), local, location=start)
        values = [self._setting_value()]
        while self.accept(","):
            values.append(self._setting_value())
        if name == "timezone" and len(values) == 1 and values[0].lower() == "local":
            return ast.SetStmt(name, ("default",), local, location=start)
        return ast.SetStmt(name, tuple(values), local, location=start)

    def alter_system(self, start: int) -> ast.Node:
        self.expect("system")
        location = self._curr.start
        if self.expect_one_of("set", "reset") == "set":
            if self.peek() == "from":
                self.advance()
                self.fail()
            changed = self._set_variable(location, local=False)
        else:
            name = "all" if self.accept("all") else self.setting_name()
            changed = ast.SetStmt(name, reset=True, location=location)
        return ast.AlterSystemStmt(changed, location=start)

    def setting_name(self) -> str:
        """var_name: ColId with dots, folded (names of settings are not case-sensitive)."""
        parts = [self.column_name()]
        while self.accept("."):
            parts.append(self.column_name())
        return ".".join(parts)

    def _setting_value(self) -> str:
        key = self._curr.key
        if key == "SCONST":
            return self.advance().text
        if key in ("true", "false", "on"):
            return self.advance().key
        if key in ("ICONST", "FCONST", "+", "-"):
            return self.signed_number()
        return self.non_reserved_word()

    def _set_time_zone(self, start: int, local: bool) -> ast.SetStmt:
        """zone_value. An interval is stored as its text."""
        key = self._curr.key
        if key in ("default", "local"):
            self.advance()
            return ast.SetStmt("timezone", (), local, location=start)
        if key == "interval":
            return ast.SetStmt("timezone", (self._interval_zone(),), local, location=start)
        if key in ("ICONST", "FCONST", "+", "-"):
            return ast.SetStmt("timezone", (self.signed_number(),), local, location=start)
        if key not in ("SCONST", "IDENT"):
            self.fail()
        return ast.SetStmt("timezone", (self.advance().text,), local, location=start)

    def _interval_zone(self) -> str:
        at = self.expect("interval").start
        if self.accept("("):
            self.integer()
            self.expect(")")
            return f"INTERVAL '{self.string()}'"
        text = self.string()
        fields = self.interval_fields()
        if fields and fields[0] not in ("1024", "3072"):  # HOUR, HOUR TO MINUTE
            self.complain("time zone interval must be HOUR or HOUR TO MINUTE", at)
        return f"INTERVAL '{text}'"

    def reset(self) -> ast.Node:
        start = self.expect("reset").start
        return self.reset_rest(start)

    def reset_rest(self, start: int) -> ast.SetStmt:
        if self.accept("all"):
            return ast.SetStmt("all", reset=True, location=start)
        return ast.SetStmt(self._special_setting_name(), reset=True, location=start)

    def _special_setting_name(self) -> str:
        if self.accept_words("time", "zone"):
            return "timezone"
        if self.accept_words("transaction", "isolation", "level"):
            return "transaction_isolation"
        if self.accept_words("session", "authorization"):
            return "session_authorization"
        return self.setting_name()

    def show(self) -> ast.Node:
        start = self.expect("show").start
        if self.accept("all"):
            return ast.ShowStmt("all", location=start)
        return ast.ShowStmt(self._special_setting_name(), location=start)

    # ---- prepared statements ----

    def prepare(self) -> ast.Node:
        start = self.expect("prepare").start
        if self._curr.key == "transaction" and self.peek() == "SCONST":
            self.advance()
            return ast.TransactionStmt("prepare", self.string(), location=start)
        name = self.column_name()
        types: tuple[ast.TypeName, ...] = ()
        if self.accept("("):
            items = [self.type_name()]
            while self.accept(","):
                items.append(self.type_name())
            self.expect(")")
            types = tuple(items)
        self.expect("as")
        return ast.PrepareStmt(name, types, self.preparable_statement(), location=start)

    def execute(self) -> ast.ExecuteStmt:
        start = self.expect("execute").start
        name = self.column_name()
        arguments: tuple[ast.Node, ...] = ()
        if self.accept("("):
            arguments = self.expressions()
            self.expect(")")
        return ast.ExecuteStmt(name, arguments, location=start)

    def deallocate(self) -> ast.Node:
        start = self.expect("deallocate").start
        if self._curr.key == "prepare" and self.peek() not in ("", ";"):
            self.advance()
        if self.accept("all"):
            return ast.DeallocateStmt(None, location=start)
        return ast.DeallocateStmt(self.column_name(), location=start)

    # ---- cursors ----

    def declare(self) -> ast.Node:
        start = self.expect("declare").start
        name = self.column_name()
        options = []
        while self._curr.key in ("no", "scroll", "binary", "asensitive", "insensitive"):
            if self.accept("no"):
                self.expect("scroll")
                options.append("no scroll")
            else:
                options.append(self.advance().key)
        self.expect("cursor")
        if self._curr.key in ("with", "without"):
            held = self.advance().key == "with"
            self.expect("hold")
            if held:
                options.append("hold")
        self.expect("for")
        return ast.DeclareCursorStmt(name, self.select(), tuple(options), location=start)

    def fetch(self) -> ast.Node:
        """FETCH and MOVE."""
        token = self.advance()
        direction, count = self._fetch_direction()
        self.optional_keyword("from", "in")
        return ast.FetchStmt(self.column_name(), direction, count, token.key == "move", location=token.start)

    def _fetch_direction(self) -> tuple[str, int | None]:
        key, following = self._curr.key, self.peek()
        ends = following in ("", ";")  # then the word is the cursor's name
        if key in ("next", "prior", "first", "last") and not ends:
            self.advance()
            return {
                "next": ("forward", 1),
                "prior": ("backward", 1),
                "first": ("absolute", 1),
                "last": ("absolute", -1),
            }[key]
        if key in ("absolute", "relative") and not ends:
            self.advance()
            return key, self.signed_integer()
        if key in ("forward", "backward") and not ends:
            self.advance()
            if self.accept("all"):
                return key, None
            if self._curr.key in ("ICONST", "+", "-"):
                return key, self.signed_integer()
            return key, 1
        if self.accept("all"):
            return "forward", None
        if key in ("ICONST", "+", "-"):
            return "forward", self.signed_integer()
        return "forward", 1

    def close(self) -> ast.Node:
        start = self.expect("close").start
        if self.accept("all"):
            return ast.ClosePortalStmt(None, location=start)
        return ast.ClosePortalStmt(self.column_name(), location=start)

    # ---- EXPLAIN, LOCK, VACUUM, ... ----

    def explain(self) -> ast.Node:
        start = self.expect("explain").start
        options: list[tuple[str, str]] = []
        if self._curr.key == "(" and not self.at_query():
            options = self.utility_options()
        else:
            if self._curr.key in ("analyze", "analyse"):
                self.advance()
                options.append(("analyze", ""))
            if self.accept("verbose"):
                options.append(("verbose", ""))
        return ast.ExplainStmt(self._explainable(), tuple(options), location=start)

    def _explainable(self) -> ast.Node:
        key = self._curr.key
        if key == "execute":
            return self.execute()
        if key == "declare":
            return self.declare()
        if key == "create" or key == "refresh":
            return self.statement()
        return self.preparable_statement()

    def utility_options(self) -> list[tuple[str, str]]:
        """( name [value], ... ) of EXPLAIN, VACUUM, ANALYZE, CLUSTER."""
        self.expect("(")
        options = []
        while True:
            name = self.advance().key if self._curr.key in ("analyze", "analyse") else self.non_reserved_word()
            value = ""
            if self._curr.key not in (",", ")"):
                value = self._setting_value()
            options.append(("analyze" if name == "analyse" else name, value))
            if not self.accept(","):
                break
        self.expect(")")
        return options

    def lock(self) -> ast.Node:
        start = self.expect("lock").start
        self.accept("table")
        relations = self.relation_expressions()
        mode = "access exclusive"
        if self.accept("in"):
            mode = self._lock_mode()
            self.expect("mode")
        return ast.LockStmt(relations, mode, self.accept("nowait"), location=start)

    def _lock_mode(self) -> str:
        for words in _LOCK_MODES:
            if all(self.peek(distance) == word for distance, word in enumerate((*words, "mode"))):
                self.expect(*words)
                return " ".join(words)
        if self._curr.key in ("access", "row", "share", "exclusive"):
            self.advance()
        self.fail()

    def vacuum(self) -> ast.Node:
        """VACUUM and ANALYZE."""
        token = self.advance()
        is_vacuum = token.key == "vacuum"
        options: list[tuple[str, str]] = []
        if self._curr.key == "(":
            options = self.utility_options()
        else:
            words = ("full", "freeze", "verbose") if is_vacuum else ("verbose",)
            for word in words:
                if self.accept(word):
                    options.append((word, ""))
            if is_vacuum and self.optional_keyword("analyze", "analyse"):
                options.append(("analyze", ""))
        relations = []
        while self.at_name():
            relations.append(self.qualified_name())
            if self._curr.key == "(":
                self.names_in_parentheses()
            if not self.accept(","):
                break
            if not self.at_name():
                self.fail()
        return ast.VacuumStmt(is_vacuum, tuple(relations), tuple(options), location=token.start)

    def discard(self) -> ast.Node:
        start = self.expect("discard").start
        target = self.expect_one_of("all", "temp", "temporary", "plans", "sequences")
        return ast.DiscardStmt("temp" if target == "temporary" else target, location=start)

    def notify(self) -> ast.Node:
        """LISTEN, UNLISTEN, NOTIFY."""
        token = self.advance()
        if token.key == "unlisten" and self.accept("*"):
            return ast.NotifyStmt("unlisten", None, location=token.start)
        channel = self.column_name()
        payload = self.string() if token.key == "notify" and self.accept(",") else ""
        return ast.NotifyStmt(token.key, channel, payload, location=token.start)

    def checkpoint(self) -> ast.Node:
        return ast.CheckPointStmt(location=self.expect("checkpoint").start)

    def skip_statement(self, what: str, start: int) -> ast.Node:
        """Skips a statement that the session refuses by its name."""
        self._skip_to_end()
        return ast.RefusedStmt(what, location=start)

    def _skip_to_end(self) -> None:
        """Skips to the semicolon at the end of the statement, outside of parentheses and BEGIN ATOMIC ... END."""
        depth = body = 0
        while self._curr.key not in ("", "ERROR") and (depth > 0 or body > 0 or self._curr.key != ";"):
            key = self.advance().key
            depth += (key == "(") - (key == ")")
            if (key == "begin" and self._curr.key == "atomic") or (key == "case" and body):
                body += 1
            elif key == "end" and body:
                body -= 1
        if self._curr.key == "ERROR":
            self.fail()

    # ---- COPY ----

    def copy(self) -> ast.Node:
        start = self.expect("copy").start
        relation: ast.RangeVar | None = None
        query: ast.Node | None = None
        columns: tuple[str, ...] = ()
        binary = False
        if self.accept("("):
            query = self.preparable_statement()
            self.expect(")")
            self.expect("to")
            is_from = False
        else:
            binary = self.accept("binary")
            relation = self.qualified_name()
            columns = self.optional_names_in_parentheses()
            is_from = self.expect_one_of("from", "to") == "from"
        program = self.accept("program")
        filename = self._copy_file(program)
        options = self._copy_options(relation is not None, binary)
        where = None
        place = self._curr.start
        if relation is not None and self.accept("where"):
            where = self.expression()
            if not is_from:
                raise SqlError("42601", "WHERE clause not allowed with COPY TO", position=place + 1)
        return ast.CopyStmt(relation, query, columns, is_from, filename, program, tuple(options), where, location=start)

    def _copy_file(self, program: bool) -> str | None:
        if not program and self._curr.key in ("stdin", "stdout"):
            self.advance()
            return None
        return self.string()

    def _copy_options(self, is_table: bool, binary: bool) -> list[tuple[str, Any]]:
        options: list[tuple[str, Any]] = [("format", "binary")] if binary else []
        if is_table and self._curr.key in ("using", "delimiters"):
            self.accept("using")
            self.expect("delimiters")
            options.append(("delimiter", self.string()))
        self.accept("with")
        if self.accept("("):
            while True:
                options.append((self.label(), self._copy_value()))
                if not self.accept(","):
                    break
            self.expect(")")
            return options
        while (option := self._old_copy_option()) is not None:
            options.append(option)
        return options

    def _copy_value(self) -> Any:
        key = self._curr.key
        if key in (",", ")"):
            return True
        if self.accept("*"):
            return "*"
        if self.accept("("):
            items = [self._setting_value()]
            while self.accept(","):
                items.append(self._setting_value())
            self.expect(")")
            return tuple(items)
        return self._setting_value()

    def _old_copy_option(self) -> tuple[str, Any] | None:
        key = self._curr.key
        if key in ("binary", "csv"):
            return "format", self.advance().key
        if key in ("freeze", "header"):
            return self.advance().key, True
        if key in ("delimiter", "null", "quote", "escape"):
            self.advance()
            self.accept("as")
            return key, self.string()
        if key == "encoding":
            self.advance()
            return "encoding", self.string()
        if key != "force":
            return None
        self.advance()
        if self.accept("quote"):
            return "force_quote", "*" if self.accept("*") else self.names()
        negated = self.accept("not")
        self.expect("null")
        return "force_not_null" if negated else "force_null", self.names()
