"""Expressions: precedence climbing by PostgreSQL's table (PostgreSQL 16 manual, 4.1.6; gram.y of release 15).

    OR  AND  NOT  IS  comparison  BETWEEN-IN-LIKE  other operators  + -  * / %  ^  AT TIME ZONE  COLLATE  sign  ::

`_operators(left, floor)` continues after a complete operand while the next operator binds at least as tightly as
`floor`. A binary operator reads its right side with a floor one above its own level, so it is left-associative. For
PostgreSQL's nonassoc operators, another operator of the same level is an error at that token. An operator that ends in
a terminal of its own (IS NULL, IN (...), = ANY (...)) is again a complete operand, whatever its level. Chains of AND,
of OR and of operators are loops and not recursion, so only nesting uses the stack.
"""

from __future__ import annotations

from typing import Final

from engine.sql import ast
from engine.sql.parser.function_syntax import FunctionSyntax
from engine.sql.parser.keywords import COLUMN_NAME, LABEL, TYPE_FUNCTION_NAME
from engine.sql.parser.lexer import IntegersToken, Token
from engine.sql.parser.type_names import BUILT_IN_TYPES

_OR, _AND, _NOT, _IS, _COMPARE, _MATCH, _OP, _ADD, _MULTIPLY, _POWER, _AT, _COLLATE, _SIGN, _CAST = range(1, 15)
_LEVELS: Final = {
    "or": _OR,
    "and": _AND,
    "is": _IS,
    "isnull": _IS,
    "notnull": _IS,
    "<": _COMPARE,
    ">": _COMPARE,
    "=": _COMPARE,
    "<=": _COMPARE,
    ">=": _COMPARE,
    "<>": _COMPARE,
    "between": _MATCH,
    "in": _MATCH,
    "like": _MATCH,
    "ilike": _MATCH,
    "similar": _MATCH,
    "not": _MATCH,  # NOT BETWEEN, NOT IN, NOT LIKE, ...
    "Op": _OP,
    "operator": _OP,
    "+": _ADD,
    "-": _ADD,
    "*": _MULTIPLY,
    "/": _MULTIPLY,
    "%": _MULTIPLY,
    "^": _POWER,
    "at": _AT,
    "collate": _COLLATE,
    "::": _CAST,
}
_NOT_IN_B_EXPR: Final = frozenset(
    ("or", "and", "isnull", "notnull", "between", "in", "like", "ilike", "similar", "not", "at", "collate")
)
_AFTER_NOT: Final = frozenset(("between", "in", "like", "ilike", "similar"))
_QUANTIFIERS: Final = {"any": "any", "some": "any", "all": "all"}
_LIKE_OPERATORS: Final = {"like": "~~", "ilike": "~~*"}
_BINARY_OPERATORS: Final = frozenset(("<", ">", "=", "<=", ">=", "<>", "+", "-", "*", "/", "%", "^"))
_BOOLEAN_TESTS: Final = ("true", "false", "unknown")
_NORMAL_FORMS: Final = ("nfc", "nfd", "nfkc", "nfkd")
_MAX_INT8: Final = 9223372036854775807
# Tokens that may follow a target list or a bare label in it.
AFTER_TARGETS: Final = frozenset(
    ("", ";", ",", ")", "from", "where", "group", "having", "window", "union", "intersect", "except", "order")
).union(("limit", "offset", "fetch", "for", "into", "on", "returning", "with"))
_AFTER_NAMES: Final = frozenset((".", "[", "(", "SCONST"))  # continue an expression that begins with a name
SELECT_START: Final = frozenset(("select", "values", "with", "table"))


def number(text: str, location: int) -> ast.Literal:
    """Returns the literal of a number: 'integer' if it fits int8, else 'float'."""
    digits = text[1:] if text[:1] == "-" else text
    if digits.isdigit() and (len(digits) < 19 or (len(digits) < 4000 and _fits_int8(text))):
        return ast.Literal("integer", text, location=location)
    return ast.Literal("float", text, location=location)


def _fits_int8(text: str) -> bool:
    return -_MAX_INT8 - 1 <= int(text) <= _MAX_INT8


class Expressions(FunctionSyntax):
    """a_expr, b_expr and c_expr."""

    def expression(self) -> ast.Node:
        return self._operators(self._operand(False), _OR, False)

    def restricted_expression(self) -> ast.Node:
        """b_expr: an expression in a construct to which a following AND, IN or NOT belongs."""
        return self._operators(self._operand(True), _OR, True)

    def continue_expression(self, left: ast.Node) -> ast.Node:
        """Continues after an operand that was read elsewhere."""
        return self._operators(left, _OR, False)

    def expressions(self) -> tuple[ast.Node, ...]:
        items = [self.expression()]
        while self.accept(","):
            items.append(self.expression())
        return tuple(items)

    # ---- operators ----

    def _operators(self, left: ast.Node, floor: int, restricted: bool) -> ast.Node:
        closed = 0  # the nonassoc level that the operand just read belongs to
        while True:
            token = self._curr
            level = _LEVELS.get(token.key)
            if level is None or level < floor or (restricted and token.key in _NOT_IN_B_EXPR):
                return left
            if level == closed:
                self.fail()
            if level == _MATCH and self._is_no_operator(token.key):
                return left
            if floor == _OR and self._is_bare_label(token):
                return left
            closed = 0
            if level in (_AND, _OR):
                left = self._boolean_chain(left, token, level, floor)
            elif token.key in _BINARY_OPERATORS or level == _OP:
                left, closed = self._binary(left, token, level, restricted)
            elif level == _CAST:
                self.advance()
                left = ast.TypeCast(left, self.type_name(), location=token.start)
            elif level == _IS:
                left, closed = self._is_test(left, token, restricted)
            elif level == _MATCH:
                left, closed = self._match_operator(left, token)
            elif level == _AT:
                self.expect("at", "time", "zone")
                zone = self._operators(self._operand(False), _AT + 1, False)
                left = self.system_call("timezone", (zone, left), token.start)
            else:
                self.advance()
                left = ast.CollateClause(left, self.any_name(), location=token.start)

    def _is_no_operator(self, key: str) -> bool:
        """NOT before something other than LIKE (`default 1 not null`); SIMILAR in SUBSTRING(a SIMILAR b ESCAPE c)."""
        if key == "similar":
            return self._similar_ends and self.peek() != "to"
        return key == "not" and self.peek() not in _AFTER_NOT

    def _is_bare_label(self, token: Token) -> bool:
        """Whether a keyword that could be an operator is a column's label: `select 1 is from t`.

        Only between complete expressions: in `1 + 2 at from t` the operator that binds tighter continues.
        """
        if not self._labels_allowed or token.key in ("isnull", "notnull") or not token.key.isalpha():
            return False
        return token.key != "Op" and self.peek() in AFTER_TARGETS

    def _boolean_chain(self, left: ast.Node, token: Token, level: int, floor: int) -> ast.Node:
        operator = "and" if level == _AND else "or"
        items = list(left.arguments) if isinstance(left, ast.BoolExpr) and left.operator == operator else [left]
        while self._curr.key == operator and not (floor == _OR and self._is_bare_label(self._curr)):
            self.advance()
            items.append(self._operators(self._operand(False), level + 1, False))
        return ast.BoolExpr(operator, tuple(items), location=token.start)

    def _binary(self, left: ast.Node, token: Token, level: int, restricted: bool) -> tuple[ast.Node, int]:
        operator = self.operator_name()
        if self._curr.key in _QUANTIFIERS and not restricted:
            return self._parse_quantified(left, operator, token.start), 0
        right = self._operators(self._operand(restricted), level + 1, restricted)
        closed = _COMPARE if level == _COMPARE else 0
        return ast.Expression("op", operator, left, right, location=token.start), closed

    def at_operator(self) -> bool:
        return self._curr.key in _BINARY_OPERATORS or self._curr.key in ("Op", "operator")

    def operator_name(self) -> tuple[str, ...]:
        """qual_Op or one of the grammar's operators: + or OPERATOR(schema.+)."""
        token = self.advance()
        if token.key != "operator":
            return (token.key if token.key != "Op" else token.text,)
        self.expect("(")
        parts = self.any_operator()
        self.expect(")")
        return parts

    def any_operator(self) -> tuple[str, ...]:
        parts = []
        while self._curr.key in COLUMN_NAME:
            parts.append(self.advance().text)
            self.expect(".")
        if self._curr.key not in _BINARY_OPERATORS and self._curr.key != "Op":
            self.fail()
        token = self.advance()
        return (*parts, token.text if token.key == "Op" else token.key)

    def _parse_quantified(self, left: ast.Node, operator: tuple[str, ...], location: int) -> ast.Node:
        quantifier = _QUANTIFIERS[self.advance().key]
        self.expect("(")
        inner = self.select_or_expression()
        self.expect(")")
        if isinstance(inner, ast.SelectStmt):
            return ast.SubLink(quantifier, inner, left, operator, location=location)
        return ast.Expression(f"op_{quantifier}", operator, left, inner, location=location)

    def _is_test(self, left: ast.Node, token: Token, restricted: bool) -> tuple[ast.Node, int]:
        word = self.advance().key
        if word != "is":
            return ast.NullTest(left, word == "isnull", location=token.start), 0
        negated = self.accept("not")
        if self.accept("distinct"):
            self.expect("from")
            right = self._operators(self._operand(restricted), _IS + 1, restricted)
            kind = "not_distinct" if negated else "distinct"
            return ast.Expression(kind, ("=",), left, right, location=token.start), _IS
        if self.accept("document"):
            found = self.is_document(left, token)
            return ast.BoolExpr("not", (found,), location=token.start) if negated else found, _IS
        if restricted:
            self.fail()
        if self.accept("null"):
            return ast.NullTest(left, not negated, location=token.start), 0
        if self._curr.key in _BOOLEAN_TESTS:
            test = f"is_{'not_' if negated else ''}{self.advance().key}"
            return ast.BooleanTest(left, test, location=token.start), 0
        return self._is_normalized(left, token, negated), 0

    def _is_normalized(self, left: ast.Node, token: Token, negated: bool) -> ast.Node:
        arguments = [left]
        if self._curr.key in _NORMAL_FORMS:
            form = self.advance()
            arguments.append(self.literal("string", form.key.upper(), location=form.start))
        self.expect("normalized")
        call = self.system_call("is_normalized", tuple(arguments), token.start)
        return ast.BoolExpr("not", (call,), location=token.start) if negated else call

    def _match_operator(self, left: ast.Node, token: Token) -> tuple[ast.Node, int]:
        negated = self.accept("not")
        word = self._curr.key
        prefix = "not_" if negated else ""
        if word == "in":
            return self._in(left, token, negated), 0
        if word == "between":
            return self._between(left, token, prefix), _MATCH
        self.advance()
        if word == "similar":
            self.expect("to")
            return self._similar(left, token, negated), _MATCH
        operator = (("!" if negated else "") + _LIKE_OPERATORS[word],)
        if self._curr.key in _QUANTIFIERS:
            return self._parse_quantified(left, operator, token.start), 0
        pattern = self._operators(self._operand(False), _MATCH + 1, False)
        if self.accept("escape"):
            escape = self._operators(self._operand(False), _MATCH + 1, False)
            pattern = self.system_call("like_escape", (pattern, escape), token.start, sql_syntax=False)
        return ast.Expression(prefix + word, operator, left, pattern, location=token.start), _MATCH

    def _similar(self, left: ast.Node, token: Token, negated: bool) -> ast.Node:
        arguments = [self._operators(self._operand(False), _MATCH + 1, False)]
        if self.accept("escape"):
            arguments.append(self._operators(self._operand(False), _MATCH + 1, False))
        pattern = self.system_call("similar_to_escape", tuple(arguments), token.start, sql_syntax=False)
        kind, operator = ("not_similar", "!~") if negated else ("similar", "~")
        return ast.Expression(kind, (operator,), left, pattern, location=token.start)

    def _between(self, left: ast.Node, token: Token, prefix: str) -> ast.Node:
        self.expect("between")
        symmetric = self.accept("symmetric")
        if not symmetric:
            self.accept("asymmetric")
        low = self.restricted_expression()
        self.expect("and")
        high = self._operators(self._operand(False), _MATCH + 1, False)
        kind = f"{prefix}between{'_sym' if symmetric else ''}"
        bounds = ast.ListExpr((low, high), location=token.start)
        return ast.Expression(kind, ("BETWEEN",), left, bounds, location=token.start)

    def _in(self, left: ast.Node, token: Token, negated: bool) -> ast.Node:
        self.expect("in", "(")
        start = self._curr.start
        kind, operator = ("not_in", "<>") if negated else ("in", "=")
        if isinstance(self._curr, IntegersToken):
            integers = ast.IntegerList(self._curr.text, self._curr.numbers, location=start)
            self._constants = True
            self.advance()
            self.expect(")")
            return ast.Expression(kind, (operator,), left, integers, location=token.start)
        first = self.select_or_expression()
        if isinstance(first, ast.SelectStmt):
            self.expect(")")
            link = ast.SubLink("any", first, left, ("=",), location=token.start)
            return ast.BoolExpr("not", (link,), location=token.start) if negated else link
        items = [first]
        while self.accept(","):
            items.append(self.expression())
        self.expect(")")
        choices = ast.ListExpr(tuple(items), location=start)
        return ast.Expression(kind, (operator,), left, choices, location=token.start)

    # ---- operands ----

    def _operand(self, restricted: bool) -> ast.Node:
        """A prefix operator with its operand, or a primary."""
        token = self._curr
        key = token.key
        if key == "IDENT":
            return self._plain_column(token) or self._parse_name()
        if key == "-" or key == "+":
            self.advance()
            operand = self._operators(self._operand(restricted), _SIGN, restricted)
            if key == "-" and isinstance(operand, ast.Literal) and operand.kind in ("integer", "float"):
                return self._negate(operand, token.start)
            return ast.Expression("op", (key,), None, operand, location=token.start)
        if key == "not" and not restricted:
            self.advance()
            operand = self._operators(self._operand(False), _NOT, False)
            return ast.BoolExpr("not", (operand,), location=token.start)
        if key == "Op" or (key == "operator" and self.peek() == "("):
            operator = self.operator_name()
            operand = self._operators(self._operand(restricted), _OP + 1, restricted)
            return ast.Expression("op", operator, None, operand, location=token.start)
        return self.primary()

    def _plain_column(self, token: Token) -> ast.Node | None:
        """A name, or two with a dot between, without a following parenthesis, string or subscript. It is a column,
        which most operands are. None for everything else."""
        names: tuple[str, ...] = (token.text,)
        tokens, end = self._tokens, self._index + 1
        if tokens[end].key == "." and tokens[end + 1].key in LABEL:
            names = (token.text, tokens[end + 1].text)
            end += 2
        if tokens[end].key in _AFTER_NAMES:
            return None
        self._index = end
        self._curr = tokens[end]
        return ast.ColumnRef(names, location=token.start)

    def _negate(self, literal: ast.Literal, location: int) -> ast.Literal:
        text = str(literal.value)
        return number(text[1:] if text[0] == "-" else "-" + text, location)

    def primary(self) -> ast.Node:
        """c_expr."""
        token = self._curr
        key = token.key
        if key == "ICONST":
            self.advance()
            return self.literal("integer", token.text, location=token.start)
        if key == "SCONST":
            self.advance()
            return self.literal("string", token.text, location=token.start)
        if key == "(":
            return self._parse_parentheses()
        if key == "FCONST":
            self.advance()
            self._constants = True
            return number(token.text, token.start)
        if key == "PARAM":
            return self._parameter()
        constant = self._keyword_constant(token)
        if constant is not None:
            return constant
        if key == "exists" and self.peek() == "(":
            self.advance()
            return ast.SubLink("exists", self.select_in_parentheses(), location=token.start)
        if key == "array":
            return self._array()
        if key == "unique":
            self.advance()
            self.select_in_parentheses()
            self.complain("UNIQUE predicate is not yet implemented", token.start, "0A000")
        if key == "case":
            return self._case()
        if key == "row" and self.peek() == "(":
            return self._row()
        if key == "default":
            self.advance()
            return ast.SetToDefault(location=token.start)
        return self._parse_name()

    def _parameter(self) -> ast.Node:
        token = self.advance()
        value = int(token.text) if len(token.text) < 12 else 1 << 40
        if value > 65535 and value > 2147483647:
            self.complain(f"there is no parameter ${token.text}", token.start, "42P02")
        self._highest_parameter = max(self._highest_parameter, value)
        return self.indirection(ast.ParamRef(value, location=token.start))

    def _keyword_constant(self, token: Token) -> ast.Node | None:
        key = token.key
        if key in ("true", "false"):
            self.advance()
            return self.literal("boolean", key == "true", location=token.start)
        if key == "null":
            self.advance()
            return self.literal("null", None, location=token.start)
        if key in ("BCONST", "XCONST"):
            self.advance()
            return self.literal("bit" if key == "BCONST" else "hexbit", token.text, location=token.start)
        return None

    def _parse_parentheses(self) -> ast.Node:
        """( select ), (expression) or the implicit row (a, b)."""
        start = self.expect("(").start
        inner = self.select_or_expression()
        if isinstance(inner, ast.SelectStmt):
            self.expect(")")
            return self.indirection(ast.SubLink("expr", inner, location=start))
        if self._curr.key == ",":
            elements = [inner]
            while self.accept(","):
                elements.append(self.expression())
            self.expect(")")
            return self._maybe_overlaps(ast.RowExpr(tuple(elements), location=start))
        self.expect(")")
        return self.indirection(inner)

    def select_or_expression(self) -> ast.Node:
        """The content of a parenthesis: a SelectStmt or an expression.

        A query in parentheses continues as a query if UNION, ORDER BY or a similar clause follows, and ends as one
        before ')'. Before anything else it was an operand.
        """
        saved, self._labels_allowed = self._labels_allowed, False
        try:
            if self.at_select():
                return self.select_without_parentheses()
            if self._curr.key != "(":
                return self.expression()
            start = self.expect("(").start
            inner = self.select_or_expression()
            if not isinstance(inner, ast.SelectStmt):
                return self.continue_expression(self._close_parenthesis(start, inner))
            self.expect(")")
            if self._curr.key == ")":
                return inner
            if self.at_query_continuation():
                return self.continue_select(inner)
            operand = self.indirection(ast.SubLink("expr", inner, location=start))
            return self.continue_expression(operand)
        finally:
            self._labels_allowed = saved

    def _close_parenthesis(self, start: int, first: ast.Node) -> ast.Node:
        if self._curr.key != ",":
            self.expect(")")
            return self.indirection(first)
        elements = [first]
        while self.accept(","):
            elements.append(self.expression())
        self.expect(")")
        return self._maybe_overlaps(ast.RowExpr(tuple(elements), location=start))

    def _row(self) -> ast.Node:
        start = self.expect("row").start
        self.expect("(")
        elements = () if self._curr.key == ")" else self.expressions()
        self.expect(")")
        return self._maybe_overlaps(ast.RowExpr(elements, True, location=start))

    def _maybe_overlaps(self, left: ast.RowExpr) -> ast.Node:
        """row OVERLAPS row, whose operands must be rows."""
        if self._curr.key != "overlaps":
            return left
        location = self.advance().start
        start = self._curr.start
        right = self._row() if self._curr.key == "row" else self._parse_parentheses()
        if not isinstance(right, ast.RowExpr):
            self.fail()
        for side, at in ((left, left.location), (right, start)):
            if len(side.elements) != 2:
                which = "left" if side is left else "right"
                self.complain(f"wrong number of parameters on {which} side of OVERLAPS expression", at)
        return self.system_call("overlaps", left.elements + right.elements, location)

    def _array(self) -> ast.Node:
        start = self.expect("array").start
        if self._curr.key == "(":
            return ast.SubLink("array", self.select_in_parentheses(), location=start)
        return self._array_elements(start)

    def _array_elements(self, start: int) -> ast.Node:
        self.expect("[")
        if self.accept("]"):
            return ast.ArrayExpr((), location=start)
        saved, self._labels_allowed = self._labels_allowed, False
        nested = self._curr.key == "["
        items = []
        while True:
            items.append(self._array_elements(self._curr.start) if nested else self.expression())
            if not self.accept(","):
                break
        self._labels_allowed = saved
        self.expect("]")
        return ast.ArrayExpr(tuple(items), location=start)

    def _case(self) -> ast.Node:
        start = self.expect("case").start
        saved, self._labels_allowed = self._labels_allowed, False
        argument = None if self._curr.key == "when" else self.expression()
        whens: list[ast.CaseWhen] = []
        while self._curr.key == "when" or not whens:
            at = self.expect("when").start
            condition = self.expression()
            self.expect("then")
            whens.append(ast.CaseWhen(condition, self.expression(), location=at))
        default = self.expression() if self.accept("else") else None
        self._labels_allowed = saved
        self.expect("end")
        return ast.CaseExpr(argument, tuple(whens), default, location=start)

    # ---- names: columns, calls, typed literals ----

    def _parse_name(self) -> ast.Node:
        token = self._curr
        key = token.key
        following = self.peek()
        if key == "interval":
            typed = self._interval_literal(following)
            if typed is not None:
                return typed
        elif key in BUILT_IN_TYPES and self._at_type_literal(key, following):
            return self._type_literal()
        elif (special := self.special_call(following)) is not None:
            return special
        if key not in COLUMN_NAME and (key not in TYPE_FUNCTION_NAME or following not in ("(", "SCONST")):
            if key in TYPE_FUNCTION_NAME:  # it is read as a function's name, so the error is at the next token
                self.advance()
            self.fail()
        if following == "(" and key in TYPE_FUNCTION_NAME:
            self.advance()
            return self.call((token.text,), token)
        if following == "SCONST" and key in TYPE_FUNCTION_NAME:
            self.advance()
            return self._generic_literal((token.text,), token)
        self.advance()
        if following not in (".", "["):
            return ast.ColumnRef((token.text,), location=token.start)
        return self._column_or_call(token)

    def _at_type_literal(self, key: str, following: str) -> bool:
        if key == "national":
            return following in ("character", "char")
        if key == "double":
            return following == "precision"
        return following in ("SCONST", "(", "varying", "with", "without")

    def _column_or_call(self, token: Token) -> ast.Node:
        """A dotted name: a column, a call or a typed literal, depending on the next token."""
        parts = [token.text]
        while self._curr.key == "." and parts[-1] != "*":
            self.advance()
            if self.accept("*"):
                parts.append("*")
            else:
                parts.append(self.label())
        if len(parts) > 1 and parts[-1] != "*":
            if self._curr.key == "(":
                return self.call(tuple(parts), token)
            if self._curr.key == "SCONST":
                return self._generic_literal(tuple(parts), token)
        if parts[-1] == "*" and self._curr.key in (".", "["):
            self.complain('improper use of "*"', token.start)
        return self.indirection(ast.ColumnRef(tuple(parts), location=token.start))

    def _generic_literal(self, parts: tuple[str, ...], token: Token) -> ast.Node:
        """point '(1,2)': a type's name before a string."""
        return self.typed_literal(ast.TypeName(parts, location=token.start))

    def typed_literal(self, type_name: ast.TypeName) -> ast.Node:
        value = self.expect("SCONST")
        return ast.TypeCast(self.literal("string", value.text, location=value.start), type_name)

    def _type_literal(self) -> ast.Node:
        return self.typed_literal(self.built_in_type(constant=True))

    def _interval_literal(self, following: str) -> ast.Node | None:
        """interval '1' day, interval(3) '1 s'; None if interval is a column."""
        if following not in ("SCONST", "("):
            return None
        location = self.expect("interval").start
        if following == "(":
            self.expect("(")
            modifiers: tuple[str, ...] = ("32767", str(self.integer()))
            self.expect(")")
            value = self.expect("SCONST")
        else:
            value = self.expect("SCONST")
            modifiers = self.interval_fields()
        type_name = ast.TypeName(("pg_catalog", "interval"), modifiers, location=location)
        return ast.TypeCast(self.literal("string", value.text, location=value.start), type_name)

    def indirection(self, argument: ast.Node) -> ast.Node:
        """Subscripts, fields and .* after an operand."""
        if self._curr.key not in ("[", "."):
            return argument
        steps = self.indirection_steps()
        return ast.Indirection(argument, steps, location=argument.location)

    def indirection_steps(self) -> tuple[ast.Subscript | str, ...]:
        steps: list[ast.Subscript | str] = []
        while True:
            token = self._curr
            if self.accept("["):
                steps.append(self._subscript(token.start))
            elif self.accept("."):
                if self.accept("*"):
                    steps.append("*")
                elif self._curr.key in LABEL:
                    steps.append(self.label())
                else:
                    self.fail()
            else:
                break
        if "*" in steps[:-1]:
            self.complain('improper use of "*"', token.start)
        return tuple(steps)

    def _subscript(self, start: int) -> ast.Subscript:
        saved, self._labels_allowed = self._labels_allowed, False
        lower = None if self._curr.key == ":" else self.expression()
        self._labels_allowed = saved
        if lower is not None and self.accept("]"):
            return ast.Subscript(False, None, lower, location=start)
        self.expect(":")
        upper = None if self._curr.key == "]" else self.expression()
        self.expect("]")
        return ast.Subscript(True, lower, upper, location=start)
