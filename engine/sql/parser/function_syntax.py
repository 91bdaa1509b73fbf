"""Function calls, and SQL's special function syntax: EXTRACT, SUBSTRING, TRIM, CAST, COALESCE, current_date, ...

The special syntax becomes calls of pg_catalog's functions in pg_proc's argument order, with `sql_syntax`.
"""

from __future__ import annotations

import itertools
from typing import Final

from engine.sql import ast
from engine.sql.parser.keywords import TYPE_FUNCTION_NAME
from engine.sql.parser.lexer import Token
from engine.sql.parser.xml_syntax import XML_CALLS, XmlSyntax

_WITH_PRECISION: Final = frozenset(("current_time", "current_timestamp", "localtime", "localtimestamp"))
_VALUE_FUNCTIONS: Final = _WITH_PRECISION.union(
    ("current_date", "current_user", "session_user", "user", "current_role", "current_catalog", "current_schema")
)
_SPECIAL_CALLS: Final = XML_CALLS.union(
    ("cast", "coalesce", "extract", "greatest", "grouping", "least", "normalize", "nullif"),
    ("overlay", "position", "substring", "treat", "trim"),
)
_EXTRACT_FIELDS: Final = frozenset(("IDENT", "year", "month", "day", "hour", "minute", "second", "SCONST"))
_TRIM_FUNCTIONS: Final = {"both": "btrim", "leading": "ltrim", "trailing": "rtrim"}
# Words that begin a function expression and are not function names (func_expr_common_subexpr).
SPECIAL_FUNCTION_START: Final = (_VALUE_FUNCTIONS | _SPECIAL_CALLS | {"collation"}) - {"grouping"}


class FunctionSyntax(XmlSyntax):
    """func_expr."""

    def system_call(
        self, name: str, arguments: tuple[ast.Node, ...], location: int, *, sql_syntax: bool = True
    ) -> ast.FuncCall:
        return ast.FuncCall(("pg_catalog", name), arguments, sql_syntax=sql_syntax, location=location)

    # ---- ordinary calls ----

    def call(self, names: tuple[str, ...], token: Token, *, windowless: bool = False) -> ast.Node:
        """A call after its name; the next token is '('. Also type names with modifiers before a string."""
        self.expect("(")
        saved, self._labels_allowed = self._labels_allowed, False
        arguments: list[ast.Node] = []
        argument_names: list[str | None] = []
        star = distinct = variadic = False
        order_by: tuple[ast.SortBy, ...] = ()
        if self.accept("*"):
            star = True
        elif self._curr.key != ")":
            if self.accept("distinct"):
                distinct = True
            else:
                plain = not self.accept("all")
                variadic = self._arguments(arguments, argument_names, may_be_variadic=plain)
            if distinct:
                self._arguments(arguments, argument_names, may_be_variadic=False)
            if self._curr.key == "order":
                order_by = self.sort_clause()
        self.expect(")")
        self._labels_allowed = saved
        named = tuple(argument_names) if any(name is not None for name in argument_names) else ()
        if self._curr.key == "SCONST" and not (star or distinct or variadic or windowless):
            return self._literal_with_modifiers(names, arguments, named, token)
        call = (names, tuple(arguments), named, star, distinct)
        if windowless or self._curr.key not in ("within", "filter", "over"):
            return ast.FuncCall(*call, order_by=order_by, variadic=variadic, location=token.start)
        return self._aggregate_tail(call, order_by, variadic, token)

    def _arguments(self, arguments: list[ast.Node], names: list[str | None], *, may_be_variadic: bool) -> bool:
        """Reads func_arg_list into the two lists. Returns whether the last argument is VARIADIC."""
        while True:
            variadic = may_be_variadic and self.accept("variadic")
            if self._is_named_argument():
                names.append(self.advance().text)
                self.advance()
            else:
                names.append(None)
            arguments.append(self.expression())
            if variadic:
                return True
            if not self.accept(","):
                return False

    def _literal_with_modifiers(
        self, names: tuple[str, ...], arguments: list[ast.Node], named: tuple[str | None, ...], token: Token
    ) -> ast.Node:
        """mytype(3) '...': func_name ( func_arg_list ) Sconst."""
        if named:
            self.complain("type modifier cannot have parameter name", token.start)
        if not arguments:
            self.fail()
        texts = tuple(self._source_of_arguments(token))
        return self.typed_literal(ast.TypeName(names, texts, location=token.start))

    def _source_of_arguments(self, token: Token) -> list[str]:
        """The texts between the commas of the parenthesis that was just closed."""
        depth, at = 0, self._index - 1
        ends = [self._tokens[at].start]
        while True:
            at -= 1
            key = self._tokens[at].key
            depth += (key in (")", "]")) - (key in ("(", "["))
            if depth < 0 or (depth == 0 and key == ","):
                ends.append(self._tokens[at].start)
            if depth < 0:
                break
        return [self.sql[left + 1 : right].strip() for right, left in itertools.pairwise(ends)][::-1]

    def _aggregate_tail(
        self,
        call: tuple[tuple[str, ...], tuple[ast.Node, ...], tuple[str | None, ...], bool, bool],
        order_by: tuple[ast.SortBy, ...],
        variadic: bool,
        token: Token,
    ) -> ast.Node:
        """WITHIN GROUP (...), FILTER (...), OVER ..."""
        saved, self._labels_allowed = self._labels_allowed, False
        within_group = False
        if self._curr.key == "within":
            at = self._curr.start
            self.expect("within", "group", "(")
            if order_by:
                self.complain("cannot use multiple ORDER BY clauses with WITHIN GROUP", at)
            if call[4]:
                self.complain("cannot use DISTINCT with WITHIN GROUP", at)
            if variadic:
                self.complain("cannot use VARIADIC with WITHIN GROUP", at)
            order_by = self.sort_clause()
            self.expect(")")
            within_group = True
        condition = None
        if self.accept("filter"):
            self.expect("(", "where")
            condition = self.expression()
            self.expect(")")
        over = None
        if self.accept("over"):
            at = self._curr.start
            if self._curr.key == "(":
                over = self.window_specification()
            else:
                over = ast.WindowDef(name=self.column_name(), location=at)
        self._labels_allowed = saved
        return ast.FuncCall(
            *call,
            order_by=order_by,
            filter=condition,
            within_group=within_group,
            variadic=variadic,
            over=over,
            location=token.start,
        )

    # ---- special syntax ----

    def special_call(self, following: str) -> ast.Node | None:
        """func_expr_common_subexpr; None if none comes next."""
        token = self._curr
        key = token.key
        if key in _VALUE_FUNCTIONS:
            # current_schema is a function name, so current_schema() is a call like any other.
            if key == "current_schema" and following in ("(", "SCONST"):
                return None
            return self._value_function(token, following)
        if key == "collation" and following == "for":
            self.expect("collation", "for", "(")
            argument = self.expression()
            self.expect(")")
            return self.system_call("pg_collation_for", (argument,), token.start)
        if key == "cast" and following != "(":  # CAST is reserved, so only a call begins with it
            self.expect("cast", "(")
        if key not in _SPECIAL_CALLS or following != "(":
            return None
        self.advance()
        self.advance()
        saved, self._labels_allowed = self._labels_allowed, False
        node: ast.Node = getattr(self, f"_{key}")(token)
        self._labels_allowed = saved
        self.expect(")")
        if key in ("coalesce", "greatest", "least", "grouping", "cast", "nullif", *XML_CALLS):
            return node
        return self._special_call_tail(node, token)

    def _special_call_tail(self, node: ast.Node, token: Token) -> ast.Node:
        if self._curr.key in ("within", "filter", "over") and isinstance(node, ast.FuncCall):
            call = (node.names, node.arguments, node.argument_names, False, False)
            return self._aggregate_tail(call, (), False, token)
        return node

    def _value_function(self, token: Token, following: str) -> ast.Node:
        self.advance()
        precision = None
        if following == "(" and token.key in _WITH_PRECISION:
            self.advance()
            precision = self.integer()
            self.expect(")")
        return ast.SqlValueFunction(token.key, precision, location=token.start)

    def _cast(self, token: Token) -> ast.Node:
        argument = self.expression()
        self.expect("as")
        return ast.TypeCast(argument, self.type_name(), location=token.start)

    def _coalesce(self, token: Token) -> ast.Node:
        return ast.CoalesceExpr(self.expressions(), location=token.start)

    def _greatest(self, token: Token) -> ast.Node:
        return ast.MinMaxExpr("greatest", self.expressions(), location=token.start)

    def _least(self, token: Token) -> ast.Node:
        return ast.MinMaxExpr("least", self.expressions(), location=token.start)

    def _grouping(self, token: Token) -> ast.Node:
        return ast.GroupingFunc(self.expressions(), location=token.start)

    def _nullif(self, token: Token) -> ast.Node:
        left = self.expression()
        self.expect(",")
        return ast.Expression("nullif", ("=",), left, self.expression(), location=token.start)

    def _extract(self, token: Token) -> ast.Node:
        if self._curr.key not in _EXTRACT_FIELDS:
            self.fail()
        field = self.advance()
        self.expect("from")
        name = self.literal("string", field.text, location=field.start)
        return self.system_call("extract", (name, self.expression()), token.start)

    def _normalize(self, token: Token) -> ast.Node:
        arguments = [self.expression()]
        if self.accept(","):
            form = self._curr
            key = self.expect_one_of("nfc", "nfd", "nfkc", "nfkd")
            arguments.append(self.literal("string", key.upper(), location=form.start))
        return self.system_call("normalize", tuple(arguments), token.start)

    def _position(self, token: Token) -> ast.Node:
        sought = self.restricted_expression()
        self.expect("in")
        return self.system_call("position", (self.restricted_expression(), sought), token.start)

    def _treat(self, token: Token) -> ast.Node:
        argument = self.expression()
        self.expect("as")
        return self.system_call(self.type_name().names[-1], (argument,), token.start)

    def _plain_call(self, name: str, first: ast.Node | None, token: Token) -> ast.Node:
        """The rest of overlay(...) or substring(...) in the form of an ordinary call."""
        arguments: list[ast.Node] = []
        names: list[str | None] = []
        if first is not None:
            arguments.append(first)
            names.append(None)
        if first is None or self.accept(","):
            self._arguments(arguments, names, may_be_variadic=False)
        named = tuple(names) if any(written is not None for written in names) else ()
        return ast.FuncCall((name,), tuple(arguments), named, location=token.start)

    def _is_named_argument(self) -> bool:
        """Whether param_name := or => comes next. LIMIT, which PostgreSQL reserves, is also a name before =>."""
        key, following = self._curr.key, self.peek()
        return (key in TYPE_FUNCTION_NAME and following in (":=", "=>")) or (key == "limit" and following == "=>")

    def _overlay(self, token: Token) -> ast.Node:
        if self._curr.key == ")":
            return ast.FuncCall(("overlay",), location=token.start)
        if self._is_named_argument():
            return self._plain_call("overlay", None, token)
        first = self.expression()
        if not self.accept("placing"):
            return self._plain_call("overlay", first, token)
        arguments = [first, self.expression()]
        self.expect("from")
        arguments.append(self.expression())
        if self.accept("for"):
            arguments.append(self.expression())
        return self.system_call("overlay", tuple(arguments), token.start)

    def _substring(self, token: Token) -> ast.Node:
        if self._curr.key == ")":
            return ast.FuncCall(("substring",), location=token.start)
        if self._is_named_argument():
            return self._plain_call("substring", None, token)
        saved, self._similar_ends = self._similar_ends, True
        first = self.expression()
        self._similar_ends = saved
        if self.accept("from"):
            start = self.expression()
            arguments = (first, start, self.expression()) if self.accept("for") else (first, start)
            return self.system_call("substring", arguments, token.start)
        if self.accept("for"):
            length = self.expression()
            if self.accept("from"):
                return self.system_call("substring", (first, self.expression(), length), token.start)
            one = self.literal("integer", "1")
            count = ast.TypeCast(length, ast.TypeName(("pg_catalog", "int4")))
            return self.system_call("substring", (first, one, count), token.start)
        if self.accept("similar"):
            pattern = self.expression()
            self.expect("escape")
            return self.system_call("substring", (first, pattern, self.expression()), token.start)
        return self._plain_call("substring", first, token)

    def _trim(self, token: Token) -> ast.Node:
        side = self.optional_keyword("both", "leading", "trailing")
        name = _TRIM_FUNCTIONS[side or "both"]
        if self.accept("from"):
            return self.system_call(name, self.expressions(), token.start)
        first = self.expression()
        if self.accept("from"):
            return self.system_call(name, (*self.expressions(), first), token.start)
        rest = self.expressions() if self.accept(",") else ()
        return self.system_call(name, (first, *rest), token.start)
