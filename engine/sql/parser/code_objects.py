"""Extensions, functions and procedures: CREATE, ALTER, DROP and CALL."""

from __future__ import annotations

from dataclasses import replace

from engine.sql import ast
from engine.sql.parser.keywords import TYPE_FUNCTION_NAME
from engine.sql.parser.type_names import BUILT_IN_TYPES
from engine.sql.parser.user_types import UserTypes

_MODES = ("in", "out", "inout", "variadic")


class CodeObjects(UserTypes):
    """CreateExtensionStmt, CreateFunctionStmt, CallStmt and similar statements."""

    def create_extension(self, start: int) -> ast.Node:
        self.expect("extension")
        if_not_exists = self.if_not_exists()
        name = self.column_name()
        self.accept("with")
        given: dict[str, str] = {}
        cascade = False
        while self._curr.key in ("schema", "version", "cascade"):
            at = self._curr.start
            option = self.advance().key
            if option in given or (option == "cascade" and cascade):
                self.complain("conflicting or redundant options", at)
            if option == "cascade":
                cascade = True
            elif option == "schema":
                given[option] = self.column_name()
            else:
                given[option] = self._version()
        return ast.ExtensionStmt(
            "create", (name,), given.get("schema"), given.get("version"), if_not_exists, cascade, location=start
        )

    def _version(self) -> str:
        return self.string() if self._curr.key == "SCONST" else self.label()

    def alter_extension(self, start: int) -> ast.Node:
        self.expect("extension")
        name = self.column_name()
        action = self.expect_one_of("update", "set", "add", "drop")
        if action == "update":
            version = self._version() if self.accept("to") else None
            return ast.ExtensionStmt("update", (name,), version=version, location=start)
        if action == "set":
            self.expect("schema")
            return ast.ExtensionStmt("schema", (name,), self.column_name(), location=start)
        return self.skip_statement(f"ALTER EXTENSION {action.upper()}", start)

    def drop_extension(self, start: int) -> ast.Node:
        """After DROP EXTENSION."""
        if_exists = self.if_exists()
        names = [self.column_name()]
        while self.accept(","):
            names.append(self.column_name())
        cascade = self.drop_behavior()
        return ast.ExtensionStmt("drop", tuple(names), if_exists=if_exists, cascade=cascade, location=start)

    # ---- functions and procedures ----

    def create_function(self, start: int, kind: str, *, replace: bool) -> ast.Node:
        """After CREATE [OR REPLACE] FUNCTION or PROCEDURE (CreateFunctionStmt)."""
        name = (self.type_function_name(),) if self.peek() != "." else self.any_name()
        parameters = self._parameters(defaults=True)
        returns: ast.FunctionParameter | None = None
        if kind == "function" and self.accept("returns"):
            if self.accept("table"):
                self.expect("(")
                columns = [self._table_column()]
                while self.accept(","):
                    columns.append(self._table_column())
                self.expect(")")
                parameters = (*parameters, *columns)
            else:
                returns = self._function_type("", "i", self._curr.start)
        options: list[ast.FunctionOption] = []
        while (option := self._function_option()) is not None:
            options.append(option)
        expression = self._curr.key == "return"
        body = self._routine_body()
        return ast.CreateFunctionStmt(
            kind, name, parameters, returns, tuple(options), replace, body, expression, location=start
        )

    def _parameters(self, *, defaults: bool) -> tuple[ast.FunctionParameter, ...]:
        self.expect("(")
        found: list[ast.FunctionParameter] = []
        if self._curr.key != ")":
            found.append(self._declared_parameter(defaults))
            while self.accept(","):
                found.append(self._declared_parameter(defaults))
        self.expect(")")
        return tuple(found)

    def _declared_parameter(self, defaults: bool) -> ast.FunctionParameter:
        """func_arg: [mode] [name] type, or [name] [mode] type, with an optional DEFAULT or =."""
        start = self._curr.start
        mode = self._parameter_mode()
        name = ""
        if self._at_parameter_name():
            name = self.type_function_name()
            mode = mode or self._parameter_mode()
        found = self._function_type(name, mode or "i", start)
        if not defaults or not (self.accept("default") or self.accept("=")):
            return found
        return replace(found, default=self.expression())

    def _parameter_mode(self) -> str:
        word = self.optional_keyword(*_MODES)
        if word == "in" and self.accept("out"):
            word = "inout"
        return {"in": "i", "out": "o", "inout": "b", "variadic": "v"}.get(word, "")

    def _at_parameter_name(self) -> bool:
        """Whether a name, and not a type alone, comes next."""
        if self._curr.key not in TYPE_FUNCTION_NAME or self._curr.key == "setof":
            return False
        if self._curr.key in BUILT_IN_TYPES and self.peek() in ("varying", "precision", "with", "without", "(", "["):
            return False
        following = self.peek()
        return following in TYPE_FUNCTION_NAME or following in BUILT_IN_TYPES or following in _MODES

    def _function_type(self, name: str, mode: str, start: int) -> ast.FunctionParameter:
        """func_type: a type, SETOF a type, or the type of a column."""
        returns_set = self.accept("setof")
        if self._curr.key in TYPE_FUNCTION_NAME and self._curr.key not in BUILT_IN_TYPES:
            distance = 1
            while self.peek(distance) == ".":
                distance += 2
            if distance > 1 and self.peek(distance) == "%" and self.peek(distance + 1) == "type":
                location = self._curr.start
                parts = self.any_name()
                self.expect("%", "type")
                type_name = ast.TypeName(parts, percent_type=True, location=location)
                return ast.FunctionParameter(name, type_name, mode, None, returns_set, location=start)
        return ast.FunctionParameter(name, self.type_name(), mode, None, returns_set, location=start)

    def _table_column(self) -> ast.FunctionParameter:
        start = self._curr.start
        return self._function_type(self.type_function_name(), "t", start)

    def _function_option(self) -> ast.FunctionOption | None:
        """createfunc_opt_item; None if another token follows."""
        start = self._curr.start
        key = self._curr.key
        if key == "as":
            self.advance()
            at = self._curr.start
            text = self.string()
            literal = at, self.source(at)
            more = (self.string(),) if self.accept(",") else ()
            return ast.FunctionOption("as", text, more, literal, location=start)
        if key == "language":
            self.advance()
            text = self.string() if self._curr.key == "SCONST" else self.non_reserved_word()
            return ast.FunctionOption("language", text, location=start)
        if key == "window":
            self.advance()
            return ast.FunctionOption("window", True, location=start)
        if key == "transform":
            self.refuse("TRANSFORM", start)
        return self._common_option()

    def _common_option(self) -> ast.FunctionOption | None:
        """common_func_opt_item: an option that ALTER FUNCTION accepts too."""
        start = self._curr.start

        def option(name: str, value: str | bool, more: tuple[str, ...] = ()) -> ast.FunctionOption:
            return ast.FunctionOption(name, value, more, location=start)

        if self.accept_words("called", "on", "null", "input"):
            return option("strict", False)
        if self.accept_words("returns", "null", "on", "null", "input") or self.accept("strict"):
            return option("strict", True)
        if self._curr.key in ("immutable", "stable", "volatile"):
            return option("volatility", self.advance().key[0])
        if self.accept_words("not", "leakproof"):
            return option("leakproof", False)
        if self.accept("leakproof"):
            return option("leakproof", True)
        if self._curr.key in ("external", "security"):
            self.accept("external")
            self.expect("security")
            return option("security", self.expect_one_of("definer", "invoker") == "definer")
        if self._curr.key in ("cost", "rows"):
            return option(self.advance().key, self.signed_number())
        if self.accept("support"):
            return option("support", ".".join(self.any_name()))
        if self.accept("parallel"):
            return option("parallel", self.column_name())
        if self._curr.key in ("set", "reset"):
            return self._setting(start)
        return None

    def _setting(self, start: int) -> ast.FunctionOption:
        """FunctionSetResetClause: SET name TO value, SET name FROM CURRENT, RESET name."""
        if self.peek(2) == "from":
            self.expect("set")
            name = self.column_name()
            self.expect("from", "current")
            return ast.FunctionOption("set", name, location=start)
        setting = self.stored_setting()
        return ast.FunctionOption("set", setting.name, setting=setting, location=start)

    def _routine_body(self) -> tuple[ast.Statement, ...] | None:
        """opt_routine_body: RETURN expression, or BEGIN ATOMIC ... END."""
        start = self._curr.start
        if self.accept("return"):
            at = self._curr.start
            value = self.expression()
            query = ast.SelectStmt(targets=(ast.ResTarget(value, location=at),), location=start)
            return (ast.Statement(query, "SELECT " + self.source(at), start),)
        if not self.accept_words("begin", "atomic"):
            return None
        found: list[ast.Statement] = []
        while not self.accept("end"):
            if self.accept(";"):
                continue
            at = self._curr.start
            if self.accept("return"):
                at = self._curr.start
                value = self.expression()
                query = ast.SelectStmt(targets=(ast.ResTarget(value, location=at),), location=at)
                found.append(ast.Statement(query, "SELECT " + self.source(at), at))
            else:
                node = self.statement()
                found.append(ast.Statement(node, self.source(at), at))
            self.expect(";")
        return tuple(found)

    def function_signatures(self) -> tuple[ast.FunctionSignature, ...]:
        """function_with_argtypes, ..."""
        found = [self.function_signature()]
        while self.accept(","):
            found.append(self.function_signature())
        return tuple(found)

    def function_signature(self) -> ast.FunctionSignature:
        start = self._curr.start
        name = (self.type_function_name(),) if self.peek() != "." else self.any_name()
        parameters = self._parameters(defaults=False) if self._curr.key == "(" else None
        return ast.FunctionSignature(name, parameters, location=start)

    def drop_functions(self, start: int, kind: str) -> ast.Node:
        """After DROP and the kind."""
        if_exists = self.if_exists()
        signatures = self.function_signatures()
        return ast.DropFunctionStmt(kind, signatures, if_exists, self.drop_behavior(), location=start)

    def alter_function(self, start: int, kind: str) -> ast.Node:
        """After ALTER and the kind."""
        signature = self.function_signature()
        if self.accept("rename"):
            self.expect("to")
            return ast.AlterFunctionStmt(kind, signature, "rename", self.type_function_name(), location=start)
        if self.accept("owner"):
            self.expect("to")
            return ast.AlterFunctionStmt(kind, signature, "owner", self.role_name(), location=start)
        if self._curr.key == "set" and self.peek() == "schema":
            self.expect("set", "schema")
            return ast.AlterFunctionStmt(kind, signature, "schema", self.column_name(), location=start)
        if self._curr.key in ("no", "depends"):
            return self.skip_statement(f"ALTER {kind.upper()} DEPENDS ON EXTENSION", start)
        options: list[ast.FunctionOption] = []
        while (option := self._common_option()) is not None:
            options.append(option)
        if not options:
            self.fail()
        self.accept("restrict")
        return ast.AlterFunctionStmt(kind, signature, "options", None, tuple(options), location=start)

    def comment_on_function(self, start: int, kind: str) -> ast.Node:
        """After COMMENT ON and the kind."""
        signature = self.function_signature()
        self.expect("is")
        text = None if self.accept("null") else self.string()
        return ast.AlterFunctionStmt(kind, signature, "comment", text, location=start)

    # ---- objects of tables ----

    def drop_from_table(self, start: int, kind: str) -> ast.Node:
        """After DROP TRIGGER, RULE or POLICY: [IF EXISTS] name ON table."""
        if_exists = self.if_exists()
        name = self.column_name()
        self.expect("on")
        parts = self.any_name()
        relation = self.range_var(parts, start)
        return ast.DropFromTableStmt(kind, name, relation, if_exists, self.drop_behavior(), location=start)

    def call_procedure(self) -> ast.Node:
        start = self.expect("call").start
        call = self.expression()
        if not isinstance(call, ast.FuncCall):
            self.fail()
        return ast.CallStmt(call, location=start)
