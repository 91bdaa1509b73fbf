"""Expressions of the analysed tree, compiled to Python source.

Each expression becomes one Python expression over locals: columns and parameters are locals, NULL is None.

    a + b        strict, both may be NULL    (None if a is None or b is None else <call>)
    a + b        both known not NULL         <call>

Conditions are compiled in one of three ways; most use one of the two cheap ones: `value` gives True, False or None;
`true` is truthy exactly when the condition is TRUE (enough for WHERE, CASE, HAVING and CHECK); `false` is truthy
exactly when it is FALSE. NOT turns one into the other, so NULL logic costs nothing.

A sub-expression that is used twice is bound by `:=` to a local. Immutable calls over constants are folded. An
expression that cannot be compiled raises `NotOnRowPath`; the planner then gives the statement to the columnar path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from catalog.errors import SqlError, not_supported
from catalog.functions import registry
from catalog.functions.base import Function, Implementation
from catalog.functions.integers import REMAINDERS
from catalog.functions.registry import implementation
from catalog.memory import at_most, size_of
from catalog.patience import TooLong, fold, is_watched, quick
from catalog.routines import LANGUAGE
from catalog.types import lookup, type_row
from catalog.types.base import DEFAULT_FORMAT, Array, FormatSettings, TypeRef
from catalog.types.named_objects import holds_names
from catalog.types.oid import bits_kept
from catalog.types.oids import BOOL, NAMED_TYPES, RECORD, RECORDS
from catalog.types.user import FIRST_USER_OID, entry_of
from engine.execute import operations
from engine.execute.array_expressions import (
    array_operation,
    array_value,
    compares_rows,
    field_value,
    of_rows,
    row_comparison,
    row_value,
    scalar_array_value,
    subscript_value,
)
from engine.execute.code import Code, Guard, NotOnRowPath, slot_uses
from engine.execute.compiled_value import NULL, Value
from engine.execute.context import ExecContext, begin_meter
from engine.execute.measured import is_slow, may_last, measured_call, measured_cast
from engine.execute.python_sides import named_codec, python_side
from engine.execute.records import Levels, known_type, row_text_encoder
from engine.execute.routine_source import routine_source
from engine.execute.values import sql_value_function
from engine.sql import tree
from engine.sql.folding import Folding, is_total

_SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FOLDED = 1 << 20  # bytes that a constant may take
_MANY_ELEMENTS = 32


class ExpressionCompiler:
    """Compiles expressions into one function under construction.

    `variable` returns the source of a column. `overrides` has the source of whole sub-expressions that are already
    computed (aggregates, grouping expressions). `sublink` compiles sub-queries; without it they are not on the row
    path. `sublink_truth` may have a shorter form if only TRUE counts.
    """

    def __init__(
        self,
        code: Code,
        settings: FormatSettings,
        variable: Callable[[tree.Var], Value],
        sublink: Callable[[tree.SubLink], Value] | None = None,
        sublink_truth: Callable[[tree.SubLink], str | None] | None = None,
    ) -> None:
        self.code = code
        self.settings = settings
        self.variable = variable
        self.sublink = sublink
        self.sublink_truth = sublink_truth
        self.levels: Levels = ()  # the outer queries, if they are known
        self.overrides: dict[tree.Expr, Value] = {}
        self.parameters: set[int] = set()
        self.checked = False  # whether the privileges for called functions are known to be held
        self._case_values: list[Value] = []
        self._domain_values: list[Value] = []
        self._conversions: dict[object, Callable[[object], object]] = {}
        self._folding = Folding(code.literals)
        self._tested: dict[int, Value] = {}  # values available within a strict call, by the identity of the expression
        self._folded: dict[int, tuple[tree.FuncExpr, tuple[object] | None]] = {}  # by the identity of the first

    # ---- the three ways ---------------------------------------------------------------------------------------------

    def value(self, expression: tree.Expr) -> Value:
        """The value of an expression."""
        if self.overrides and (known := self.overrides.get(expression)) is not None:
            return known
        if self._tested and (known := self._tested.get(id(expression))) is not None:
            return known
        method = _VALUES.get(type(expression))
        if method is None:
            raise NotOnRowPath(type(expression).__name__)
        return method(self, expression)

    def true(self, expression: tree.Expr) -> str:
        """Source that is truthy exactly when the condition is TRUE."""
        if not self.overrides or expression not in self.overrides:  # a look-up costs the hash of a whole tree
            match expression:
                case tree.Const():
                    return "True" if expression.value is True else "False"
                case tree.BoolExpr(operator="not"):
                    return self.false(expression.arguments[0])
                case tree.BoolExpr(operator=operator):
                    return "(" + f" {operator} ".join(map(self.true, expression.arguments)) + ")"
                case tree.FuncExpr() if expression.function.strict and expression.type.oid == BOOL:
                    if (known := self._fold(expression)) is not None:
                        return "True" if known[0] is True else "False"
                    guards, call, _ = self._strict_call(expression)
                    return f"({' and '.join([*[guard.test for guard in guards], call])})" if guards else call
                case tree.ScalarArrayOp():
                    return array_operation(self, expression, truth=True)
                case tree.SubLink() if self.sublink_truth is not None:
                    if (source := self.sublink_truth(expression)) is not None:
                        return source
        return self.value(expression).source

    def false(self, expression: tree.Expr) -> str:
        """Source that is truthy exactly when the condition is FALSE."""
        if not self.overrides or expression not in self.overrides:
            match expression:
                case tree.Const():
                    return "True" if expression.value is False else "False"
                case tree.BoolExpr(operator="not"):
                    return self.true(expression.arguments[0])
                case tree.BoolExpr(operator=operator):
                    other = " or " if operator == "and" else " and "
                    return "(" + other.join(map(self.false, expression.arguments)) + ")"
                case tree.FuncExpr() if expression.function.strict and expression.type.oid == BOOL:
                    guards, call, total = self._strict_call(expression)
                    negated = f"not {call}" if total else f"{call} is False"
                    return f"({' and '.join([*[guard.test for guard in guards], negated])})"
        found = self.value(expression)
        return f"({found.source} is False)" if found.nullable else f"(not {found.source})"

    def bind_name(self, expression: tree.Expr) -> tuple[str, Value]:
        """Source that evaluates the expression into a local, and the value under that local: (':=' source, atom)."""
        return self.bind(self.value(expression))

    def bind(self, found: Value) -> tuple[str, Value]:
        if found.atom:
            return found.source, found
        name = self.code.temporary()
        return f"({name} := {found.source})", found.with_name(name)

    # ---- leaves -----------------------------------------------------------------------------------------------------

    def _const(self, expression: tree.Const) -> Value:
        return self._make_constant(expression.value)

    def _param(self, expression: tree.Param) -> Value:
        self.parameters.add(expression.number)
        return Value(f"p{expression.number}", nullable=expression.number > self.code.literals, atom=True)

    def _var(self, expression: tree.Var) -> Value:
        return self.variable(expression)

    def _case_test(self, expression: tree.CaseTestExpr) -> Value:
        return self._case_values[-1]

    def _with_case_value(self, value: Value, expression: tree.Expr) -> Value:
        self._case_values.append(value)
        try:
            return self.value(expression)
        finally:
            self._case_values.pop()

    def _sql_value(self, expression: tree.SqlValueFunction) -> Value:
        function = sql_value_function(expression.name, expression.precision)
        return Value(f"{self.code.constant(function, expression.name)}({self.code.context_call})", nullable=True)

    def _current_of(self, expression: tree.CurrentOf) -> Value:
        """The access path has found the row by it."""
        return Value("True", nullable=False, atom=True)

    def _next_value(self, expression: tree.NextValueExpr) -> Value:
        return Value(f"{self.code.context_call}.session.next_value({expression.sequence})", nullable=False)

    def _sub_link(self, expression: tree.SubLink) -> Value:
        if self.sublink is None:
            raise NotOnRowPath("sub-query")
        return self.sublink(expression)

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _call_source(
        self, function: Function, values: Sequence[Value], types: Sequence[TypeRef], result: TypeRef
    ) -> str:
        arguments = [value.source for value in values]
        if function.language == LANGUAGE:
            return routine_source(self.code, "call_routine", function, arguments, types, result, checked=self.checked)
        found = implementation(function.source)
        if function.source in REMAINDERS and arguments[1].isdigit() and arguments[1] != "0":
            name = tested = arguments[0]
            if not name.isidentifier():
                name = self.code.temporary("t")
                tested = f"({name} := {arguments[0]})"
            call = f"({name} % {arguments[1]} if {tested} >= 0 else -(-{name} % {arguments[1]}))"
        elif found is not None and found.python_source is not None and self._can_inline(found, arguments):
            self.code.names.update(found.python_names)
            call = found.python_source.format(*arguments)
        else:
            python, needs_context = python_side(function, types, result)
            name = self.code.constant(python, function.name if function.name.isidentifier() else "f")
            given = [self.code.context_call, *arguments] if needs_context else arguments
            call = f"{name}({', '.join(given)})"
            if may_last(types, result):
                self.code.lasts = True
                if found is None or found.duckdb is None:  # DuckDB has a limit of its own
                    self._count_call(values)
        return measured_call(self.code, call, function, result)

    def _count_call(self, arguments: Sequence[Value]) -> None:
        """Whether the arguments of a call that may take long with long arguments come from other calls."""
        made = any(value.made or not value.atom for value in arguments)
        self.code.calls = max(self.code.calls, 2 if made else 1)

    def _can_inline(self, found: Implementation, arguments: Sequence[str]) -> bool:
        """Whether the template may be used: an argument that it repeats is a name, and its globals do not clash."""
        template, names = found.python_source or "", self.code.names
        return all(
            source.isidentifier() or uses <= 1 for source, uses in zip(arguments, slot_uses(template), strict=False)
        ) and all(names.get(name, value) is value for name, value in found.python_names.items())

    def _strict_call(self, expression: tree.FuncExpr) -> tuple[list[Guard], str, bool]:
        """(tests that no argument is NULL, the call, whether the call is never NULL then).

        Every argument is computed, even beside a NULL, because it may raise an error as in PostgreSQL. Available values
        are tested last; if several are not available, a tuple computes them before any test. Constants that PostgreSQL
        computes during planning come first: if one is NULL, the others are not evaluated.
        """
        before = self._folding.before_others(expression)
        if not before:
            return self._call_of_others(expression)
        kept = self._tested
        guards, self._tested = self._tests_before(before)
        others, call, total = self._call_of_others(expression)
        self._tested = kept
        return guards + others, call, total

    def _tests_before(self, parts: Sequence[tuple[tree.Expr, bool]]) -> tuple[list[Guard], dict[int, Value]]:
        """Tests that none of these parts of a call is NULL, with available values last."""
        computed: list[str] = []
        guards: list[Guard] = []
        tested = dict(self._tested)
        for part, nullable in parts:
            if id(part) in tested:
                continue
            found = self.value(part)
            if not found.atom:
                source, found = self.bind(found)
                computed.append(source)
            if nullable and found.nullable:
                guards.append(Guard(found.source))
            tested[id(part)] = found if found == NULL else replace(found, nullable=False)
        if not guards:  # a value that cannot be NULL is computed at its place
            return [], self._tested
        return [Guard(f"({', '.join(computed)},)", computes=True), *guards] if computed else guards, tested

    def _call_of_others(self, expression: tree.FuncExpr) -> tuple[list[Guard], str, bool]:
        values = [self.value(argument) for argument in expression.arguments]
        computed = [value for value in values if not value.atom]
        together = any(value.nullable for value in values) and (
            len(computed) > 1 or any(not value.nullable for value in computed)
        )
        evaluated: list[str] = []
        guards: list[Guard] = []
        tested: list[Guard] = []
        arguments: list[Value] = []
        for found in values:
            if found.atom:
                if found.nullable:
                    tested.append(Guard(found.source))
            elif together or found.nullable:
                source, found = self.bind(found)  # noqa: PLW2901 - the same value under its name
                if together:
                    evaluated.append(source)
                    source = found.source
                if found.nullable:
                    guards.append(Guard(source))
            arguments.append(found)
        guards += tested
        if evaluated:
            guards.insert(0, Guard(f"({', '.join(evaluated)},)", computes=True))
        types = [argument.type for argument in expression.arguments]
        if compares_rows(expression.function, types):
            symbol = _SYMBOLS[registry.comparison(expression.function.source)]
            return guards, self._compared_records(symbol, expression.arguments, arguments), True
        if expression.function.source == "record_send" and types[0].oid == RECORD:
            encode = self.code.constant(known_type(expression.arguments[0], self.levels).binary_encoder(), "send")
            return guards, f"{encode}({arguments[0].source})", True
        call = self._call_source(expression.function, arguments, types, expression.type)
        return guards, call, is_total(expression)

    def _function(self, expression: tree.FuncExpr) -> Value:
        function = expression.function
        if function.returns_set or function.kind != "f":
            raise NotOnRowPath(f"function {function.name}")
        if (known := self._fold(expression)) is not None:
            return self._make_constant(known[0])
        if _gives_its_argument(function):
            return self.value(expression.arguments[0])
        if not function.strict:
            values = [self.value(argument) for argument in expression.arguments]
            types = [argument.type for argument in expression.arguments]
            return Value(self._call_source(function, values, types, expression.type))
        guards, call, total = self._strict_call(expression)
        if any(guard.source == NULL.source for guard in guards):
            return NULL
        if not guards:
            return Value(call, nullable=not total)
        nulls = " or ".join(guard.negation for guard in guards)
        return Value(f"(None if {nulls} else {call})")

    def _compared_records(self, symbol: str, sides: Sequence[tree.Expr], values: Sequence[Value]) -> str:
        """Source of the comparison of two rows of no declared type that are not NULL; both sides tell their fields."""
        known = known_type(tree.CoalesceExpr(tuple(sides), sides[0].type), self.levels)  # one type for both
        only_equal = symbol in ("==", "!=")
        key = self.code.constant(known.equality_key() if only_equal else known.sort_key(), "record_key")
        left, right = values
        return f"({key}({left.source}) {symbol} {key}({right.source}))"

    def set_function(self, expression: tree.FuncExpr) -> str:
        """Source of the rows of a set-returning function: values, or tuples if it has several columns."""
        function = expression.function
        types = [argument.type for argument in expression.arguments]
        values = [self.value(argument) for argument in expression.arguments]
        if not function.strict or not any(value.nullable for value in values):
            return self._call_source(function, values, types, expression.type)
        bound = [self.bind(value) for value in values]
        nulls = " or ".join(f"{s} is None" for (s, _), v in zip(bound, values, strict=True) if v.nullable)
        call = self._call_source(
            function,
            [atom if v.nullable else replace(v, source=s) for (s, atom), v in zip(bound, values, strict=True)],
            types,
            expression.type,
        )
        return f"(() if {nulls} else {call})"

    # ---- constants --------------------------------------------------------------------------------------------------

    def constant(self, expression: tree.Expr) -> tuple[object] | None:
        """The value of an expression that is known now (in a tuple of one), None if it is not.

        Immutable functions and casts of constants are known. A failure occurs later, when (and if) the expression runs.
        """
        match expression:
            case tree.Const():
                return (expression.value,)
            case tree.RelabelType():
                inner, kept = self.constant(expression.argument), _bits_kept(expression)
                return inner if kept is None or inner is None or inner[0] is None else (kept(inner[0]),)
            case tree.CoerceTypmod() | tree.CoerceViaIO():
                inner = self.constant(expression.argument)
                if inner is None or inner[0] is None:
                    return inner
                if isinstance(expression, tree.CoerceViaIO) and _of_names(expression):
                    return None
                return _attempt(self._conversion(expression), inner)
            case tree.FuncExpr():
                return self._fold(expression)
        return None

    def _fold(self, expression: tree.FuncExpr) -> tuple[object] | None:
        known = self._folded.get(id(expression))
        if known is None:  # each call asks for its nested ones, which may be many
            known = self._folded[id(expression)] = (expression, self._evaluate(expression))
        return known[1]

    def _evaluate(self, expression: tree.FuncExpr) -> tuple[object] | None:
        function = expression.function
        if function.volatility != "i" or function.returns_set or function.kind != "f" or function.language == LANGUAGE:
            return None
        values = []
        for argument in expression.arguments:
            known = self.constant(argument)
            if known is None:
                return None
            values.append(known[0])
        if function.strict and None in values:
            return (None,)
        if not is_watched() and (is_slow(function) or not quick(values)):
            return None  # planning has no time limit there
        types = [argument.type for argument in expression.arguments]
        python, needs_context = python_side(function, types, expression.type)
        return None if needs_context else _attempt(python, values)

    def _make_constant(self, value: object) -> Value:
        if value is None:
            return NULL
        if size_of(value):
            self.code.has_large = True
        return Value(self.code.constant(value), nullable=False, atom=True)

    # ---- casts ------------------------------------------------------------------------------------------------------

    def _relabel(self, expression: tree.RelabelType) -> Value:
        kept, found = _bits_kept(expression), self.value(expression.argument)
        if kept is None:
            return found
        if (known := self.constant(expression)) is not None:
            return self._make_constant(known[0])
        name = self.code.constant(kept, "cast")
        if not found.nullable:
            return Value(f"{name}({found.source})", nullable=False)
        source, atom = self.bind(found)
        return Value(f"(None if {source} is None else {name}({atom.source}))")

    def _conversion(self, expression: tree.CoerceViaIO | tree.CoerceTypmod) -> Callable[[object], object]:
        """The function of a cast, for values that are not NULL."""
        known = self._conversions.get(expression_key(expression))
        if known is not None:
            return known
        target = lookup(expression.type.oid)
        if isinstance(expression, tree.CoerceTypmod):
            made = target.length_coercion(expression.type.typmod, expression.explicit) or _identity
        else:
            source = expression.argument
            encode = row_text_encoder(source, self.levels, self.settings)
            decode = target.text_decoder(self.settings, expression.type.typmod)

            def made(value: object) -> object:
                return decode(encode(value).decode())

        self._conversions[expression_key(expression)] = made
        return made

    def _convert(self, expression: tree.CoerceViaIO | tree.CoerceTypmod) -> Value:
        if (known := self.constant(expression)) is not None:
            return self._make_constant(known[0])
        by_name = isinstance(expression, tree.CoerceViaIO) and _of_names(expression)
        function = self._conversion_of_names(expression) if by_name else self._conversion(expression)
        found = self.value(expression.argument)
        if function is _identity:
            return found
        name = self.code.constant(function, "cast")
        call = f"{name}({self.code.context_call}, " if by_name else f"{name}("
        if isinstance(expression, tree.CoerceViaIO) and may_last((expression.argument.type,), expression.type):
            self.code.lasts = True
            self._count_call((found,))
        if not found.nullable:
            return Value(measured_cast(self.code, f"{call}{found.source})", expression), nullable=False)
        source, atom = self.bind(found)
        made = measured_cast(self.code, f"{call}{atom.source})", expression)
        return Value(f"(None if {source} is None else {made})")

    def _conversion_of_names(self, expression: tree.Expr) -> Callable[..., object]:
        """A cast from or to a type that prints names (regclass): its codec uses the session."""
        assert isinstance(expression, tree.CoerceViaIO)
        source, target = expression.argument.type.oid, expression.type.oid
        shown, read = named_codec(source, "out", self.settings), named_codec(target, "in")
        encode = lookup(source).text_encoder(self.settings)
        decode = lookup(target).text_decoder(self.settings, expression.type.typmod)

        def converted(call: object, value: object) -> object:
            text = encode(value).decode() if shown is None else shown(call, value)
            return decode(str(text)) if read is None else read(call, text)

        return converted

    def _array_coerce(self, expression: tree.ArrayCoerce) -> Value:
        source, array = self.bind_name(expression.argument)
        element = self.code.temporary("e")
        inner = self._with_case_value(Value(element, nullable=True, atom=True), expression.element)
        self.code.names["Array"] = Array
        built = (
            f"Array(tuple([{inner.source} for {element} in {array.source}.elements]),"
            f" {array.source}.dimensions, {array.source}.lower_bounds)"
        )
        if source != array.source:
            return Value(f"(None if {source} is None else {built})")
        return Value(f"(None if {array.source} is None else {built})" if array.nullable else built, array.nullable)

    def _domain_value(self, expression: tree.DomainValue) -> Value:
        return self._domain_values[-1]

    def _to_domain(self, expression: tree.CoerceToDomain) -> Value:
        """The value is bound first; then each FALSE condition raises its error."""
        found = self.value(expression.argument)
        source, atom = self.bind(found)
        tests = []
        if expression.not_null and atom.nullable:
            error = _domain_error(expression, "23502", f"domain {expression.name} does not allow null values")
            tests.append((f"{atom.source} is None", error))
        self._domain_values.append(atom)
        try:
            for name, check in expression.checks:
                message = f'value for domain {expression.name} violates check constraint "{name}"'
                tests.append((self.false(check), _domain_error(expression, "23514", message, name)))
        finally:
            self._domain_values.pop()
        chain = "".join(f"{self.code.constant(_raising(error), 'refuse')}() if {test} else " for test, error in tests)
        bound = "" if found.atom else f"None if ({source}, False)[1] else "
        return Value(f"({bound}{chain}{atom.source})", atom.nullable and not expression.not_null)

    def _domain_rule(self, expression: tree.DomainRule) -> Value:
        return Value(f"({self.value(expression.argument).source}, True)[1]", nullable=False)

    # ---- logic ------------------------------------------------------------------------------------------------------

    def _bool(self, expression: tree.BoolExpr) -> Value:
        if expression.operator == "not":
            source, atom = self.bind_name(expression.arguments[0])
            if not atom.nullable:
                return Value(f"(not {source})", nullable=False)
            return Value(f"(None if {source} is None else not {atom.source})")
        values = [self.value(argument) for argument in expression.arguments]
        if not any(value.nullable for value in values):
            return Value("(" + f" {expression.operator} ".join(v.source for v in values) + ")", nullable=False)
        decisive = "False" if expression.operator == "and" else "True"
        neutral = "True" if expression.operator == "and" else "False"
        tests, unknowns = [], []
        for value in values:
            source, atom = self.bind(value)
            tests.append(f"{source} is {decisive}")
            if value.nullable:
                unknowns.append(f"{atom.source} is None")
        return Value(f"({decisive} if {' or '.join(tests)} else None if {' or '.join(unknowns)} else {neutral})")

    def _null_test(self, expression: tree.NullTest) -> Value:
        sign = "is" if expression.is_null else "is not"
        if isinstance(expression.argument, tree.RowExpr) and expression.argument.type.oid == RECORD:
            values = [self.value(element) for element in expression.argument.elements]
            tests = sorted((self._null_test_source(value, sign) for value in values), key=lambda test: test != "False")
            return Value(f"({' and '.join(tests) or True})", nullable=False)  # a constant decides before all others
        is_null = isinstance(expression.argument, tree.Const) and expression.argument.value is None
        if expression.argument.type.oid == RECORD and not is_null:
            raise NotOnRowPath("IS NULL of a row")
        if _is_composite(expression.argument.type.oid) and not expression.whole:
            name = self.code.constant(operations.null_row if expression.is_null else operations.full_row, "row_test")
            return Value(f"{name}({self.value(expression.argument).source})", nullable=False)
        source = self._null_test_source(self.value(expression.argument), sign)
        return Value(source, nullable=False, atom=source in ("False", "True"))

    @staticmethod
    def _null_test_source(value: Value, sign: str) -> str:
        """A value that is never NULL is still computed, because it may fail."""
        if value.atom and not value.nullable:
            return str(sign == "is not")
        return f"({value.source} {sign} None)"

    def _boolean_test(self, expression: tree.BooleanTest) -> Value:
        test = expression.test
        if test.endswith("unknown"):
            found = self.value(expression.argument)
            source = f"({found.source} is None)"
        else:
            inner = self.true if test.endswith("true") else self.false
            source = f"({inner(expression.argument)} is True)" if test.endswith("true") else inner(expression.argument)
        if "not" in test:
            return Value(f"(not {source})", nullable=False)
        return Value(f"bool({source})", nullable=False)

    def comparison_call(self, function: Function, left: Value, right: Value, types: Sequence[TypeRef]) -> str:
        return self._call_source(function, [left, right], types, TypeRef(BOOL))

    def _distinct(self, expression: tree.DistinctExpr) -> Value:
        left_source, left = self.bind_name(expression.left)
        right_source, right = self.bind_name(expression.right)
        types = expression.left.type, expression.right.type
        if of_rows(types):
            sides = expression.left, expression.right
            equal = self._compared_records("==", sides, (left, right))
        else:
            equal = self.comparison_call(expression.function, left, right, types)
        # The tuple evaluates both sides first; then the cases are distinguished.
        evaluate = f"({left_source}, {right_source})"
        nulls = [f"{side.source} is None" for side in (left, right) if side.nullable]
        same = f"(({' and '.join(nulls)}) if {' or '.join(nulls)} else {equal})" if nulls else equal
        if len(nulls) == 1:
            same = f"(False if {nulls[0]} else {equal})"
        wanted = same if expression.negated else f"not {same}"
        return Value(f"({evaluate} and {wanted})", nullable=False)

    def _null_if(self, expression: tree.NullIfExpr) -> Value:
        left_source, left = self.bind_name(expression.left)
        right_source, right = self.bind_name(expression.right)
        types = (expression.left.type, expression.right.type)
        if compares_rows(expression.function, types):
            sides = (expression.left, expression.right)
            equal = self._compared_records("==", sides, (left, right))
        else:
            equal = self.comparison_call(expression.function, left, right, types)
        evaluate = f"({left_source}, {right_source})"
        nulls = "".join(f"{side.source} is None or " for side in (left, right) if side.nullable)
        different = f"{nulls}not {equal}"
        return Value(f"({left.source} if {evaluate} and ({different}) else None)")

    def _coalesce(self, expression: tree.CoalesceExpr) -> Value:
        values = []
        for argument in expression.arguments:
            values.append(self.value(argument))
            if not values[-1].nullable:
                break
        if len(values) > _MANY_ELEMENTS and all(found.atom for found in values):  # Python nests conditions
            first = self.code.constant(operations.first_known, "first_known")
            return Value(f"{first}(({', '.join([found.source for found in values])}))", values[-1].nullable)
        parts: list[str] = []
        for found in values:
            if not found.nullable:
                return Value(f"({''.join(parts)}{found.source})", nullable=False) if parts else found
            source, atom = self.bind(found)
            parts.append(f"{atom.source} if {source} is not None else ")
        return Value(f"({''.join(parts)}None)")

    def _min_max(self, expression: tree.MinMaxExpr) -> Value:
        function = operations.greatest if expression.operator == "greatest" else operations.least
        key = self.code.constant(known_type(expression, self.levels).sort_key(), "key")
        values = [self.value(argument) for argument in expression.arguments]
        sources = "".join(f"{value.source}, " for value in values)
        return Value(
            f"{self.code.constant(function, expression.operator)}({key}, ({sources}))",
            nullable=all(value.nullable for value in values),
        )

    def _case(self, expression: tree.CaseExpr) -> Value:
        prefix = ""
        if expression.argument is not None:
            source, atom = self.bind_name(expression.argument)
            self._case_values.append(atom)
            if source != atom.source:
                prefix = f"({source},) and "
        try:
            parts: list[str] = []
            nullable = False
            for condition, result in expression.whens:
                test = self.true(condition)
                value = self.value(result)
                nullable = nullable or value.nullable
                parts.append(f"{value.source} if {test} else ")
            last = self.value(expression.default)
        finally:
            if expression.argument is not None:
                self._case_values.pop()
        return Value(f"({prefix}({''.join(parts)}{last.source}))", nullable or last.nullable)


def compile_expression(
    expression: tree.Expr, settings: FormatSettings
) -> Callable[[ExecContext, Sequence[object]], object]:
    """A function of an expression without columns: (context, parameters) -> its value in internal form.

    Raises NotOnRowPath for an expression that cannot be evaluated row by row (sub-queries, aggregates).
    """

    def no_column(item: tree.Var) -> Value:
        raise NotOnRowPath(f"column {item.name}")

    code = Code()
    compiler = ExpressionCompiler(code, settings, no_column)
    found = compiler.value(expression)
    with code.block("def evaluate(context, parameters):"):
        for number in sorted(compiler.parameters):
            code.line(f"p{number} = parameters[{number - 1}]")
        if code.large_calls:
            code.line(f"{code.constant(begin_meter, 'metered')}(context)")
        code.line(f"return {found.source}")
    return code.finish("evaluate")


def compile_value(expression: tree.Expr, settings: FormatSettings) -> Callable[[ExecContext, Sequence[object]], Any]:
    """A function that computes an expression without a query: an argument of EXECUTE or of CALL. Raises 0A000."""
    try:
        return compile_expression(expression, settings)
    except NotOnRowPath as error:
        not_supported(f"{error} here")


def constant_value(expression: tree.Expr) -> tuple[object] | None:
    """The value of an expression without columns that is known when the statement is planned (in a tuple of one), None
    otherwise; also of an array of such values."""

    def no_column(item: tree.Var) -> Value:
        raise NotOnRowPath(f"column {item.name}")

    compiler = ExpressionCompiler(Code(), DEFAULT_FORMAT, no_column)
    if not isinstance(expression, tree.ArrayExpr) or expression.nested:
        return compiler.constant(expression)
    found = [compiler.constant(item) for item in expression.elements]
    known = tuple(item[0] for item in found if item is not None)
    return (Array.of(known),) if len(known) == len(found) else None


def _is_composite(oid: int) -> bool:
    row = None if oid < FIRST_USER_OID else type_row(oid)
    return row is not None and row.kind == "c"


_Refusal = Callable[[], SqlError]


def _domain_error(
    expression: tree.CoerceToDomain, sqlstate: str, message: str, constraint: str | None = None
) -> _Refusal:
    """Makes the error of a value outside the domain, with the names of the violated constraints."""
    entry = entry_of(expression.type.domain)
    schema, name = (None, None) if entry is None else (entry.schema, entry.row.name)
    return lambda: SqlError(sqlstate, message, schema=schema, data_type=name, constraint=constraint)


def _raising(error: _Refusal) -> Callable[[], object]:
    def refuse() -> object:
        raise error()

    return refuse


def expression_key(expression: tree.CoerceViaIO | tree.CoerceTypmod) -> object:
    """The common key of casts that convert alike."""
    explicit = expression.explicit if isinstance(expression, tree.CoerceTypmod) else None
    source = expression.argument.type.oid
    row = expression.argument if source in RECORDS else None  # each has fields of its own
    return type(expression), source, row, expression.type, explicit


def _of_names(expression: tree.CoerceViaIO) -> bool:
    return holds_names(lookup(expression.argument.type.oid)) or expression.type.oid in NAMED_TYPES


def _identity(value: object) -> object:
    return value


def _attempt(function: Callable[..., object], arguments: Sequence[object]) -> tuple[object] | None:
    """The result of a call, None if it raises an SqlError, takes too long or is too large to be kept with a plan."""
    try:
        with at_most(_FOLDED):
            result = fold(function, arguments)
    except (SqlError, TooLong, RecursionError):
        return None
    return None if size_of(result) > _FOLDED else (result,)


def _gives_its_argument(function: Function) -> bool:
    """Whether the value in internal form is that of the only argument: casts from int4 to int8, unary plus."""
    found = implementation(function.source) if function.strict else None
    return found is not None and found.python_source == "{0}"


_VALUES: dict[type, Callable[[ExpressionCompiler, Any], Value]] = {
    tree.Const: ExpressionCompiler._const,
    tree.Param: ExpressionCompiler._param,
    tree.Var: ExpressionCompiler._var,
    tree.FuncExpr: ExpressionCompiler._function,
    tree.RelabelType: ExpressionCompiler._relabel,
    tree.CoerceViaIO: ExpressionCompiler._convert,
    tree.CoerceTypmod: ExpressionCompiler._convert,
    tree.ArrayCoerce: ExpressionCompiler._array_coerce,
    tree.CaseTestExpr: ExpressionCompiler._case_test,
    tree.DomainValue: ExpressionCompiler._domain_value,
    tree.CoerceToDomain: ExpressionCompiler._to_domain,
    tree.DomainRule: ExpressionCompiler._domain_rule,
    tree.BoolExpr: ExpressionCompiler._bool,
    tree.NullTest: ExpressionCompiler._null_test,
    tree.BooleanTest: ExpressionCompiler._boolean_test,
    tree.DistinctExpr: ExpressionCompiler._distinct,
    tree.NullIfExpr: ExpressionCompiler._null_if,
    tree.ScalarArrayOp: scalar_array_value,
    tree.CoalesceExpr: ExpressionCompiler._coalesce,
    tree.MinMaxExpr: ExpressionCompiler._min_max,
    tree.CaseExpr: ExpressionCompiler._case,
    tree.ArrayExpr: array_value,
    tree.RowExpr: row_value,
    tree.RowCompare: row_comparison,
    tree.FieldSelect: field_value,
    tree.SubscriptingRef: subscript_value,
    tree.SubLink: ExpressionCompiler._sub_link,
    tree.SqlValueFunction: ExpressionCompiler._sql_value,
    tree.NextValueExpr: ExpressionCompiler._next_value,
    tree.CurrentOf: ExpressionCompiler._current_of,
}


def _bits_kept(expression: tree.RelabelType) -> Callable[[Any], object] | None:
    return bits_kept(expression.argument.type.oid, expression.type.oid)
