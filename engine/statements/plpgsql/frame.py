"""A function in PL/pgSQL while it runs: what its Python source calls (compile.py).

Its statements run as nested.py says.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from catalog.errors import SqlError, not_supported
from catalog.memory import POINTER, Holding, meter
from catalog.types import element_of, format_type, lookup, oids
from catalog.types.base import Array, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.named_objects import holds_names
from engine.execute.code import NotOnRowPath
from engine.execute.context import Field
from engine.execute.expressions import compile_expression, compile_value
from engine.session.prepared import Prepared
from engine.sql import ast, tree
from engine.sql.analyze import Shared
from engine.sql.analyze.state import State
from engine.sql.parser import parse
from engine.sql.plpgsql.tree import Fragment, Shape, Target, Variable
from engine.sql.tree_walk import has_sublink
from engine.statements import planning
from engine.statements.plpgsql import errors, frame_cursors, stack
from engine.statements.plpgsql.compile import TICKS
from engine.statements.plpgsql.errors import LineContext, TextContext
from engine.statements.plpgsql.fragments import (
    Text,
    analyse_text,
    failing_part,
    part_of_variable,
    shape_of_record,
    shape_of_rows,
)
from engine.statements.plpgsql.known import Evaluation, Known, Locals, named_value, places_of, value_of, values_at
from engine.statements.plpgsql.names import Names, ParameterUse, unassigned_error
from engine.statements.plpgsql.nested import NestedStatements, Rows, wait_within
from engine.statements.plpgsql.records import Cast, Row, assignment_of, cast_of, check_columns, record_text, shape_of
from engine.statements.plpgsql.utilities import output_places, refuse_dynamic, with_variables
from engine.statements.rows_plan import RowsPlan
from engine.statements.rule_checks import is_ruled
from engine.txn.interface import LockWait

if TYPE_CHECKING:
    from engine.execute.context import ExecContext, Field
    from engine.session.session import Session
    from engine.statements.plpgsql.program import Program

SLICE_SECONDS = 0.005
"""For which a function may hold the event loop."""
LOOK_SECONDS = 0.001
"""Between two looks at the clock."""
MOST_TICKS = 10_000
MOST_TAKES = 1000
"""Lists of types whose casts are kept, for each program."""

_NO_SHAPES: Mapping[int, Shape | None] = {}


class Point:
    """The savepoint of a block with handlers."""

    def __init__(self, session: Session, name: str) -> None:
        self._session = session
        self._name = name
        self._is_open = True
        session.transactions.save(name)

    def undo(self) -> None:
        """Undoes what the block has written."""
        if self._is_open:
            self._is_open = False
            self._session.transactions.undo_to(self._name)

    def leave(self) -> None:
        """The block has ended without an error, or with one that nobody handles."""
        if self._is_open:
            self._is_open = False
            self._session.transactions.forget(self._name)


class Frame:
    """One call of a function. `results`: the rows of RETURN NEXT and RETURN QUERY."""

    def __init__(
        self,
        session: Session,
        program: Program,
        known: Known,
        is_atomic: bool,
        columns: Sequence[TypeRef] | None = None,
    ) -> None:
        self.session = session
        self.program = program
        self.columns = program.columns if columns is None else columns
        self.results: list[tuple[object, ...]] = []
        self._known = known
        self._is_atomic = is_atomic  # COMMIT and ROLLBACK are not allowed
        self._nested = NestedStatements(session, program.is_volatile)
        self._held: Holding | None = None  # the memory of the results
        self._measured = 0  # how many of them it has
        self._points = 0
        self._looked = self._yielded = perf_counter()
        self._ticks = TICKS

    @cached_property
    def context(self) -> ExecContext:
        """Of the expressions in the function's source: most need none."""
        return self.session.context()

    # ---- expressions ------------------------------------------------------------------------------------------------

    def evaluate(self, number: int, values: Locals, wanted: TypeRef | None) -> object:
        """The value of a text, of the wanted type."""
        return self._evaluate(number, values, wanted)[0]

    def evaluate_typed(self, number: int, values: Locals) -> tuple[object, TypeRef]:
        """A value with its own type."""
        return self._evaluate(number, values, None)

    def _evaluate(self, number: int, values: Locals, wanted: TypeRef | None) -> tuple[object, TypeRef]:
        program = self.program
        record = program.named[number]
        if record is not None and wanted is None:
            return values[f"p{record.number + 1}"], TypeRef(oids.RECORD)
        shapes, key = self._shapes(number, values)
        found = self._known.evaluations.get((key, wanted))
        if found is None or found.settings != self.session.key or found.is_old(self.session.catalog):
            with program.contexts[number]:
                found = self._known.evaluations[key, wanted] = self._evaluation(program.texts[number], shapes, wanted)
                found.settings = self.session.key
        parameters = values_at(found.places, values)
        if found.compute is not None:
            while True:
                try:
                    return found.compute(self.session.context(), parameters), found.type
                except LockWait as lock:
                    wait_within(self.session, self.session.wait_for(lock))
        assert found.prepared is not None
        with self.program.contexts[number]:
            fields, rows = self._nested.rows(found.prepared, parameters)
        if len(rows) > 1:
            with LineContext(f"query: {program.texts[number].query}"):
                raise SqlError("21000", "query returned more than one row")
        value = rows[0][0] if rows else None
        if wanted is None or value is None:
            return value, fields[0].type
        with program.contexts[number] if program.texts[number].target else nullcontext():  # a part of an assignment
            return self._cast(value, fields[0].type, wanted), wanted

    def _evaluation(self, fragment: Fragment, shapes: Mapping[int, Shape | None], wanted: TypeRef | None) -> Evaluation:
        environment = self.session.environment
        text = analyse_text(fragment, environment, shapes, self.program.conflict)
        query = text.analyzed.statement
        assert isinstance(query, tree.Query)
        if len(query.output) != 1 and fragment.target:
            raise SqlError("42601", f"assignment source returned {len(query.output)} columns")
        if len(query.output) != 1:
            with LineContext(f"query: {fragment.query}"):
                raise SqlError("42601", f"query returned {len(query.output)} columns")
        plain = text.plain(environment)
        if plain is not None:
            type_ = wanted or plain.type
            if wanted is not None:
                plain = assignment_of(State(Shared(environment, ())), plain, wanted)
            failing = failing_part(plain, environment)
            if failing is not None:
                self._fail_first(failing, fragment)
            with suppress(NotOnRowPath):
                return Evaluation(places_of(text.uses), type_, compile_expression(plain, environment.format))
        type_ = query.output[0].expression.type
        return Evaluation(places_of(text.uses), type_, prepared=self._plan(fragment, text, False))

    def _fail_first(self, failing: tree.Expr, fragment: Fragment) -> None:
        """Raises the error of a constant part. That of a literal which is assigned is at its place."""
        try:
            compile_value(failing, self.session.environment.format)(self.session.context(), ())
        except SqlError as error:
            if fragment.target and fragment.text[:1] == "'" and error.position is None:
                error.position = fragment.before + 1
            raise

    def row_of(self, number: int, values: Locals, shape: Shape) -> Row | None:
        """The value of a text as a row of a table."""
        row = self.evaluate_row(number, values)
        if row is None or row.shape == shape:
            return row
        return Row(shape, tuple(self.values_of(row.values, row.fields, [type_ for _, type_ in shape])))

    def evaluate_row(self, number: int, values: Locals) -> Row | None:
        """The value of a text that is a row: a record, a value of a composite type, ROW(...). Raises 42804."""
        fragment = self.program.texts[number]
        variable = self.program.named[number]
        if variable is not None:
            return values[f"p{variable.number + 1}"]  # type: ignore[no-any-return]
        with self.program.contexts[number]:
            shapes, _ = self._shapes(number, values)
            text = analyse_text(fragment, self.session.environment, shapes, self.program.conflict)
            plain = text.plain(self.session.environment)
            failing = None if plain is None else failing_part(plain, self.session.environment)
            if failing is not None:
                self._fail_first(failing, fragment)
        parameters = [value_of(use, values) for use in text.uses]
        shape = None if plain is None else shape_of_rows(plain)
        if isinstance(plain, tree.RowExpr) and shape is not None:
            if has_sublink(plain):
                return Row(shape, tuple(self._evaluate(number, values, None)[0]))  # type: ignore[arg-type]
            format_ = self.session.environment.format
            found = [compile_value(item, format_)(self.session.context(), parameters) for item in plain.elements]
            return Row(shape, tuple(found))
        value, type_ = self._evaluate(number, values, None)
        known = lookup(type_.oid)
        if isinstance(value, Row) or (value is None and type_.oid in (oids.UNKNOWN, oids.TEXT, oids.RECORD)):
            return value
        if shape is not None:
            return None if value is None else Row(shape, tuple(value))  # type: ignore[arg-type]
        if not isinstance(known, CompositeType):
            raise SqlError("42804", "cannot return non-composite value from function returning composite type")
        return None if value is None else Row(known.fields, tuple(value))  # type: ignore[arg-type]

    def _shapes(self, number: int, values: Locals) -> tuple[Mapping[int, Shape | None], object]:
        """The shapes of the records that a text may use, and a key for the text with them."""
        records = self.program.records[number]
        if not records:
            return _NO_SHAPES, number
        shapes = {item.number: shape_of_record(values[f"p{item.number + 1}"]) for item in records}
        if any(item.shape is None for item in records):
            return shapes, (number, *shapes.values())
        return shapes, (number, *[shape is None for shape in shapes.values()])  # they are declared: no need to compare

    # ---- statements -------------------------------------------------------------------------------------------------

    def _plan(self, fragment: Fragment, text: Text, for_cursor: bool) -> Prepared:
        statement = ast.Statement(fragment.tree, fragment.text, 0, len(text.uses), fragment.text)
        prepared = planning.plan_statement(self.session, statement, text.analyzed, self.session.environment, for_cursor)
        prepared.tally = self.session.node.statements.nested
        return prepared

    def _statement(self, number: int, values: Locals, for_cursor: bool = False) -> tuple[Prepared, list[object]]:
        """A text as a planned statement, with the values of its parameters."""
        shapes, key = self._shapes(number, values)
        known, settings = self._known.statements.get(key), self.session.key
        if (
            known is None
            or known[0].catalog is not self.session.catalog
            or (known[2] is not settings and known[2] != settings)
        ):
            fragment = self.program.texts[number]
            if isinstance(fragment.tree, planning.QUERY_STATEMENTS) and not is_ruled(self.session, fragment.tree):
                text = analyse_text(fragment, self.session.environment, shapes, self.program.conflict)
                known = self._plan(fragment, text, for_cursor), text.uses, settings, places_of(text.uses)
            else:
                node, uses = with_variables(self.session, fragment, shapes, self.program.conflict)
                statement = ast.Statement(node, fragment.text, 0, len(uses), fragment.text)
                types = [named_value(use, values)[2].oid for use in uses]
                known = planning.prepare(self.session, statement, types), uses, settings, places_of(uses)
            self._known.statements[key] = known
        return known[0], values_at(known[3], values)

    def rows(self, number: int, values: Locals) -> tuple[Sequence[Field], Rows]:
        """The columns and rows of a query."""
        with self.program.contexts[number]:
            return self._nested.rows(*self._statement(number, values))

    def call(self, number: int, values: Locals, writable: Collection[int]) -> dict[int, tuple[object, TypeRef]]:
        """CALL and DO: the results by the positions of their arguments. `writable`: those that are variables."""
        with self.program.contexts[number]:
            prepared, parameters = self._statement(number, values)
        places = output_places(self.session, prepared.statement.tree, writable)
        with self.program.contexts[number]:
            fields, rows = self._nested.rows(prepared, parameters, may_commit=self._may_commit())
        self._renew_context()
        results = zip(places, rows[0], fields, strict=True) if rows else ()
        return {place: (value, item.type) for place, value, item in results}

    def _may_commit(self) -> bool:
        transaction = self.session.transaction
        return not self._is_atomic and not (transaction is not None and transaction.savepoints)

    def loop_rows(self, query: int, values: Locals) -> tuple[Sequence[Field], Rows]:
        """The columns and rows of the query of a loop. PostgreSQL runs it as a cursor: its errors do not name it, and
        ROW_COUNT does not count it."""
        with self.program.contexts[query]:
            prepared, parameters = self._statement(query, values)
        before = self._nested.count
        found = self._nested.rows(prepared, parameters)
        self._nested.count = before
        return found

    def perform(self, number: int, values: Locals) -> bool:
        """PERFORM: whether there was a row."""
        self.rows(number, values)
        return self._nested.count > 0

    def run(self, number: int, values: Locals, found: bool) -> bool:
        """A statement without INTO: the new value of FOUND."""
        try:
            prepared, parameters = self._statement(number, values)
            if prepared.plan.columns is None:
                self._nested.rows(prepared, parameters)
        except SqlError as error:
            self.program.contexts[number].add(error)
            raise
        if prepared.plan.columns is not None:
            hint = None
            if prepared.command == "SELECT":
                hint = "If you want to discard the results of a SELECT, use PERFORM instead."
            raise SqlError("42601", "query has no destination for result data", hint=hint)
        if isinstance(prepared.plan, RowsPlan) or prepared.plan.writes:
            return self._nested.count > 0
        self._renew_context()
        return found

    @property
    def has_rows(self) -> bool:
        """Whether the last statement has read or written a row."""
        return self._nested.count > 0

    def one_row(
        self, number: int, values: Locals, strict: bool
    ) -> tuple[Sequence[Field], tuple[object, ...] | SqlError | None]:
        """The row for INTO; P0002 or P0003 where STRICT, or a change of rows, wants exactly one."""
        fields: Sequence[Field] = ()
        rows: Rows = ()
        try:
            prepared, parameters = self._statement(number, values)
            if prepared.plan.columns is not None:
                fields, rows = self._nested.rows(prepared, parameters)
        except SqlError as error:
            self.program.contexts[number].add(error)
            raise
        if prepared.plan.columns is None:
            raise SqlError("42601", "INTO used with a command that cannot return data")
        if not strict and len(rows) < 2:
            return fields, rows[0] if rows else None
        found = self._only(rows, strict or prepared.plan.writes, strict)
        if isinstance(found, SqlError) and self.program.print_strict:
            _, uses, _, _ = self._known.statements[self._shapes(number, values)[1]]
            shown = sorted(uses, key=lambda use: use.variable.number)
            found = self._with_parameters(found, [named_value(use, values) for use in shown])
        return fields, found

    @staticmethod
    def _only(rows: Rows, single: bool, strict: bool) -> tuple[object, ...] | SqlError | None:
        """The row for INTO, or the error of too few or too many."""
        if strict and not rows:
            return SqlError("P0002", "query returned no rows")
        if single and len(rows) > 1:
            hint = "Make sure the query returns a single row, or use LIMIT 1."
            return SqlError("P0003", "query returned more than one row", hint=hint)
        return rows[0] if rows else None

    def _with_parameters(self, error: SqlError, parameters: Sequence[tuple[str, object, TypeRef]]) -> SqlError:
        """An error of INTO with the parameters of the query, where print_strict_params asks for them."""
        if self.program.print_strict and parameters:
            shown = [f"{name} = {self._quote(value, type_)}" for name, value, type_ in parameters]
            error.detail = f"parameters: {', '.join(shown)}"
        return error

    def _quote(self, value: object, type_: TypeRef) -> str:
        text = None if value is None else self._text(value, type_)
        return "NULL" if text is None else "'" + text.replace("'", "''") + "'"

    # ---- dynamic statements -----------------------------------------------------------------------------------------

    def _dynamic(
        self, text: str | None, using: Sequence[tuple[object, TypeRef]], is_loop: bool = False
    ) -> tuple[Sequence[Field] | None, Rows]:
        """EXECUTE: the columns and rows of the last statement of a text. `is_loop`: see `loop_rows`."""
        if text is None:
            raise SqlError("22004", "query string argument of EXECUTE is null")
        fields: Sequence[Field] | None = None
        rows: Rows = ()
        types = [type_.oid for _, type_ in using]
        with TextContext(text):
            statements = parse(text, self.session.key.conforming)
        for statement in statements:
            refuse_dynamic(statement.tree)
            with TextContext(text):
                prepared = planning.prepare(self.session, statement, types)
                prepared.tally = self.session.node.statements.nested
            with nullcontext() if is_loop else TextContext(text):
                _, rows = self._nested.rows(prepared, [value for value, _ in using])
            fields = prepared.fields
            if not isinstance(prepared.plan, RowsPlan):
                self._renew_context()
        return fields, rows

    def execute(self, text: str | None, using: Sequence[tuple[object, TypeRef]]) -> None:
        """EXECUTE without INTO: rows are dropped."""
        self._dynamic(text, using)

    def execute_row(
        self, text: str | None, using: Sequence[tuple[object, TypeRef]], strict: bool
    ) -> tuple[Sequence[Field], tuple[object, ...] | None]:
        """EXECUTE ... INTO."""
        fields, rows = self._dynamic(text, using)
        if fields is None:
            raise SqlError("42601", "INTO used with a command that cannot return data")
        found = self._only(rows, strict, strict)
        if isinstance(found, SqlError):
            numbered = [(f"${number}", *item) for number, item in enumerate(using, 1)]
            raise self._with_parameters(found, numbered)
        return fields, found

    def dynamic_rows(
        self, text: str | None, using: Sequence[tuple[object, TypeRef]], is_loop: bool
    ) -> tuple[Sequence[Field], Rows]:
        """The rows of FOR ... IN EXECUTE and RETURN QUERY EXECUTE."""
        before = self._nested.count
        fields, rows = self._dynamic(text, using, is_loop)
        if is_loop:
            self._nested.count = before
        if fields is None:
            raise SqlError("42P11", "cannot open EXECUTE query as cursor")
        return fields, rows

    # ---- variables --------------------------------------------------------------------------------------------------

    def values_of(
        self, row: tuple[object, ...] | None, fields: Sequence[Field], types: Sequence[TypeRef]
    ) -> Sequence[object]:
        """A row as the values of variables of these types: what is too much is dropped, what is missing is NULL."""
        if row is None:
            return [None] * len(types)
        known = self._known.takes.get(id(types))
        if known is None or known[0] is not types or known[1] is not fields:
            if len(self._known.takes) >= MOST_TAKES:
                self._known.takes.clear()
            found = [self._cast_of(item.type, type_) for item, type_ in zip(fields, types, strict=False)]
            casts = found if len(fields) != len(types) or any(found) else None
            self._known.takes[id(types)] = types, fields, casts
        else:
            casts = known[2]
        if casts is None:
            return row
        context = self.context
        values = [value if cast is None else cast(context, (value,)) for value, cast in zip(row, casts, strict=False)]
        return values if len(values) == len(types) else values + [None] * (len(types) - len(values))

    @staticmethod
    def column_of(
        row: tuple[object, ...] | None, fields: Sequence[Field], number: int
    ) -> tuple[object, TypeRef] | None:
        """A column of a row, with its type; None where there is none."""
        return None if row is None or number >= len(fields) else (row[number], fields[number].type)

    def record_of(
        self, row: tuple[object, ...] | None, fields: Sequence[Field], declared: TypeRef | Shape | None
    ) -> object:
        """A row as the value of a record, of a table's row, or of a variable of a composite type."""
        if declared is None:
            return Row(shape_of(fields), (None,) * len(fields) if row is None else row)
        if isinstance(declared, tuple):
            return Row(declared, tuple(self.values_of(row, fields, [type_ for _, type_ in declared])))
        if row is None:
            return None
        known: Any = lookup(declared.oid)
        return tuple(self.values_of(row, fields, [type_ for _, type_ in known.fields]))

    def _cast(self, value: object, source: TypeRef, target: TypeRef) -> object:
        cast = self._cast_of(source, target)
        return value if cast is None else cast(self.session.context(), (value,))

    def _cast_of(self, source: TypeRef, target: TypeRef) -> Cast | None:
        casts = self._known.casts
        if (source, target) not in casts:
            casts[source, target] = cast_of(self.session.environment, source, target)
        return casts[source, target]

    def store_field(
        self, row: Row | None, name: str, steps: Sequence[object], number: int, values: Locals, shape: Shape | None
    ) -> Row:
        """A record with the value of a text in a field. Raises 55000 without a value, 42703 for a missing field."""
        with self.program.contexts[number]:
            row, position = self._place_in(row, name, steps, shape)
        value = self.evaluate(number, values, row.shape[position][1])
        return Row(row.shape, (*row.values[:position], value, *row.values[position + 1 :]))

    def store_part(
        self, number: int, values: Locals, before: object, target: Target, records: Sequence[Variable]
    ) -> object:
        """An array or a value of a composite type (`before`) with the value of a text in a part of it, where records
        take part. Raises 0A000 for a query in a subscript."""
        value, type_ = self._evaluate(number, values, None)
        shapes = {item.number: shape_of_record(values[f"p{item.number + 1}"]) for item in records}
        given = Variable(-1, "", type_)
        names = Names(self.program.texts[number].scope, shapes, self.program.conflict)
        names.uses += [ParameterUse(target.variable), ParameterUse(given)]
        shared = Shared(self.session.environment, ())
        shared.routine = names
        whole = tree.Param(1, TypeRef(target.variable.type.oid))  # type: ignore[union-attr]
        part = part_of_variable(State(shared), target, whole, tree.Param(2, type_))
        try:
            compute = compile_value(part, self.session.environment.format)
        except NotOnRowPath:
            not_supported("a query in a subscript that is assigned to")
        known = {**values, "p0": value, f"p{target.variable.number + 1}": before}
        return compute(self.session.context(), [value_of(use, known) for use in names.uses])

    def store_into(
        self,
        row: Row | None,
        name: str,
        steps: Sequence[object],
        given: tuple[object, TypeRef] | None,
        shape: Shape | None,
    ) -> Row:
        """A record with a column of a query's row in a field (`given` None: there is no such column)."""
        row, position = self._place_in(row, name, steps, shape)
        value = None if given is None else self._cast(*given, row.shape[position][1])
        return Row(row.shape, (*row.values[:position], value, *row.values[position + 1 :]))

    @staticmethod
    def _place_in(row: Row | None, name: str, steps: Sequence[object], shape: Shape | None) -> tuple[Row, int]:
        """A record, and the position of a field in it."""
        if row is None:
            if shape is None:
                raise unassigned_error(name)
            row = Row(shape, (None,) * len(shape))
        if len(steps) != 1 or not isinstance(steps[0], str):
            not_supported("assignment to a part of a field of a record")
        position = next((place for place, (known, _) in enumerate(row.shape) if known == steps[0]), -1)
        if position < 0:
            raise SqlError("42703", f'record "{name}" has no field "{steps[0]}"')
        return row, position

    def refuse_null(self, name: str) -> None:
        """22004 for a variable that is declared NOT NULL."""
        raise SqlError("22004", f'null value cannot be assigned to variable "{name}" declared NOT NULL')

    # ---- loops ------------------------------------------------------------------------------------------------------

    def look(self) -> int:
        """From time to time in a loop: lets others run. Returns for how many turns it need not be called."""
        now = perf_counter()
        took, self._looked = now - self._looked, now
        meter().fleeting = 0  # the values of former turns
        if len(self.results) > self._measured:
            self._measure()
        self._ticks = max(1, min(MOST_TICKS, int(self._ticks * LOOK_SECONDS / max(took, 1e-6))))
        if now - self._yielded > SLICE_SECONDS:
            wait_within(self.session, asyncio.sleep(0))
            self._looked = self._yielded = perf_counter()
        return self._ticks

    def _measure(self) -> None:
        """Counts the memory of results by the last one. Raises 53200."""
        row = self.results[-1]
        size = POINTER + sys.getsizeof(row) + sum(map(sys.getsizeof, row))
        if self._held is None:
            self._held = Holding(self.session.memory)
        self._held.add(size * (len(self.results) - self._measured))
        self._measured = len(self.results)

    @staticmethod
    def numbers(low: int | None, high: int | None, step: int | None, reverse: bool) -> range:
        """The values of FOR. Raises 22004, 22023."""
        for value, what in ((low, "lower bound"), (high, "upper bound"), (step, "BY value")):
            if value is None:
                raise SqlError("22004", f"{what} of FOR loop cannot be null")
        assert low is not None and high is not None and step is not None
        if step <= 0:
            raise SqlError("22023", "BY value of FOR loop must be greater than zero")
        return range(low, high - 1, -step) if reverse else range(low, high + 1, step)

    def elements(self, number: int, values: Locals, slice_: int) -> tuple[Sequence[Field], Rows]:
        """The elements or slices of FOREACH, as rows of one column. Raises 22004, 42804, 2202E."""
        value, type_ = self._evaluate(number, values, None)
        if value is None:
            raise SqlError("22004", "FOREACH expression must not be null")
        element = element_of(type_.oid)
        if not element:
            shown = format_type(type_.oid)
            raise SqlError("42804", f"FOREACH expression must yield an array, not type {shown}")
        assert isinstance(value, Array)
        if not slice_:
            return (Field("element", TypeRef(element)),), [(item,) for item in value.elements]
        dimensions = len(value.dimensions)
        if slice_ > dimensions:
            raise SqlError("2202E", f"slice dimension ({slice_}) is out of the valid range 0..{dimensions}")
        kept = value.dimensions[-slice_:]
        size, bounds = prod(kept), value.lower_bounds[-slice_:]
        parts = [value.elements[start : start + size] for start in range(0, len(value.elements), size)]
        return (Field("slice", type_),), [(Array(part, kept, bounds),) for part in parts]

    # ---- cursors ----------------------------------------------------------------------------------------------------

    def open_cursor(self, name: str | None, number: int, values: Locals, scroll: bool | None) -> str:
        """OPEN with a query: the cursor's name."""
        frame_cursors.check_unused(self.session, name)
        with self.program.contexts[number]:
            prepared, parameters = self._statement(number, values, for_cursor=True)
            return frame_cursors.open_portal(self.session, name, prepared, parameters, scroll)

    def open_dynamic(
        self, name: str | None, text: str | None, using: Sequence[tuple[object, TypeRef]], scroll: bool | None
    ) -> str:
        """OPEN ... FOR EXECUTE."""
        if text is None:
            raise SqlError("22004", "query string argument of EXECUTE is null")
        (statement,) = parse(text, self.session.key.conforming)
        prepared = planning.prepare(self.session, statement, [type_.oid for _, type_ in using], True)
        return frame_cursors.open_portal(self.session, name, prepared, [value for value, _ in using], scroll)

    def fetch(
        self, name: str | None, variable: str, direction: str, count: int | None, move: bool
    ) -> tuple[Sequence[Field], tuple[object, ...] | None]:
        """FETCH and MOVE: the columns, and the row; None without one."""
        cursor = frame_cursors.portal_of(self.session, name, variable)
        fields, rows = frame_cursors.fetch(self.session, cursor, direction, count, move)
        self._nested.count = len(rows)
        return fields, rows[-1] if rows else None

    def cursor_rows(self, name: str) -> tuple[Sequence[Field], Rows]:
        """All rows of an open cursor."""
        return frame_cursors.step_through(self.session, frame_cursors.portal_of(self.session, name, name))

    def close_cursor(self, name: str | None, variable: str) -> None:
        """CLOSE."""
        self.session.portals.close(frame_cursors.portal_of(self.session, name, variable).name)

    def end_cursor(self, name: str) -> None:
        """The end of a loop over a cursor, however it is left."""
        self.session.portals.close(name.encode())

    # ---- results ----------------------------------------------------------------------------------------------------

    def add_rows(self, fields: Sequence[Field], rows: Rows, number: int | None) -> bool:
        """RETURN QUERY of a text, or of EXECUTE (None): whether there was a row. Raises 42804 for other columns than
        the function's."""
        message = "structure of query does not match function result type"
        with self.program.contexts[number] if number is not None else nullcontext():
            check_columns([item.type for item in fields], self.columns, message)
        self.results.extend(rows)
        if rows:
            self._measure()
        self._nested.count = len(rows)
        return bool(rows)

    @staticmethod
    def refuse_unassigned(name: str) -> None:
        """55000 for RETURN NEXT of a record without a value."""
        raise unassigned_error(name)

    def add_row(self, row: Row | None) -> None:
        """RETURN NEXT of a row."""
        columns = self.columns
        if row is None:
            self.results.append((None,) * len(columns))
            return
        values = zip(row.values, row.shape, columns, strict=False)
        self.results.append(tuple(self._cast(value, field_[1], type_) for value, field_, type_ in values))

    def refuse_end(self, is_trigger: bool) -> None:
        """2F005 for a function that ends without RETURN."""
        what = "trigger procedure" if is_trigger else "function"
        raise SqlError("2F005", f"control reached end of {what} without RETURN")

    def evaluate_case(self, number: int, values: Locals) -> Row:
        """The operand of CASE, as a record with the field `value`."""
        value, type_ = self._evaluate(number, values, None)
        return Row((("value", type_),), (value,))

    def refuse_case(self) -> None:
        """20000 for a CASE without a branch that fits."""
        raise SqlError("20000", "case not found", hint="CASE statement is missing ELSE part.")

    # ---- errors -----------------------------------------------------------------------------------------------------

    is_handled: Callable[[SqlError, Sequence[str]], bool] = staticmethod(errors.is_handled)

    def begin_block(self) -> Point:
        """Begins a block with handlers."""
        self._points += 1
        return Point(self.session, f"plpgsql {id(self)} {self._points}")

    def add_option(
        self, options: dict[str, str], name: str, value: tuple[object, TypeRef], condition: str, has_message: bool
    ) -> None:
        """Adds an option of RAISE."""
        errors.add_option(options, name, self._text(*value), condition, has_message)

    def raise_message(
        self,
        level: str,
        condition: str,
        message: str | None,
        values: Sequence[tuple[object, TypeRef]],
        options: Mapping[str, str],
    ) -> None:
        """RAISE. `options`: as `add_option` has collected them."""
        error = errors.message_of(level, condition, message, [self._text(*item) for item in values], options)
        if level == "exception":
            raise error
        error.context = "\n".join(stack.lines_around())
        self.session.notices.append(error)

    def _text(self, value: object, type_: TypeRef) -> str | None:
        if value is None:
            return None
        if isinstance(value, Row):
            encoders = [lookup(known.oid).text_encoder(self.session.key.format) for _, known in value.shape]
            return record_text(encoders, value.values)
        if holds_names(lookup(type_.oid)):
            return cast("str", self._cast(value, type_, TypeRef(oids.TEXT)))
        return lookup(type_.oid).text_encoder(self.session.key.format)(value).decode()

    @property
    def checks_asserts(self) -> bool:
        """plpgsql.check_asserts"""
        return self.session.settings.find("plpgsql.check_asserts") not in ("off", "false", "0")

    def fail_assertion(self, message: str | None) -> None:
        """P0004."""
        raise SqlError("P0004", "assertion failed" if message is None else message)

    def current(self, item: str) -> tuple[object, TypeRef]:
        """An item of GET CURRENT DIAGNOSTICS."""
        if item == "row_count":
            return self._nested.count, TypeRef(oids.INT8)
        return "\n".join(stack.lines_around()), TypeRef(oids.TEXT)

    def stacked_item(self, error: SqlError | None, item: str) -> tuple[object, TypeRef]:
        """An item of GET STACKED DIAGNOSTICS. Raises 0Z002 outside of a handler."""
        if error is None:
            raise SqlError("0Z002", "GET STACKED DIAGNOSTICS cannot be used outside an exception handler")
        found = {
            "returned_sqlstate": error.sqlstate, "message_text": error.message, "column_name": error.column,
            "constraint_name": error.constraint, "pg_datatype_name": error.data_type, "table_name": error.table,
            "schema_name": error.schema, "pg_exception_detail": error.detail, "pg_exception_hint": error.hint,
            "pg_exception_context": self._context_of(error),
        }  # fmt: skip
        return found[item] or "", TypeRef(oids.TEXT)

    def _context_of(self, error: SqlError) -> str:
        """The context of an error that has come to a handler of this call."""
        line = errors.context_line(self.program.shown, *errors.place_of(self.program, error.__traceback__))
        inside = () if error.context is None else (error.context,)
        return "\n".join((*inside, line, *stack.lines_around()[1:]))  # without this call: it is elsewhere now

    def convert(self, found: tuple[object, TypeRef], wanted: TypeRef) -> object:
        """A value with its type, for a variable of a type."""
        return self._cast(*found, wanted)

    def end_transaction(self, undo: bool, chain: bool) -> None:
        """COMMIT and ROLLBACK in a procedure. Raises 2D000 where the transaction is not the procedure's."""
        session = self.session
        if self._is_atomic:
            raise SqlError("2D000", "invalid transaction termination")
        transaction = session.transaction
        if transaction is not None and transaction.savepoints:
            word = "roll back" if undo else "commit"
            raise SqlError("2D000", f"cannot {word} while a subtransaction is active")
        if undo:
            session.transactions.abort()
        else:
            while True:
                try:
                    lsn = session.transactions.commit()
                    break
                except LockWait as lock:  # a deferred constraint
                    wait_within(session, session.wait_for(lock))
            if lsn:
                wait_within(session, session.durable(lsn))
        made = session.begin_implicit()
        self._renew_context()
        if chain and transaction is not None:
            session.variables.continue_modes(transaction, made)

    def fail(self, sqlstate: str, message: str) -> None:
        """Raises an error."""
        raise SqlError(sqlstate, message)

    def _renew_context(self) -> None:
        """After a statement that may have changed the schema, or ended the transaction."""
        fresh, context = self.session.context(), self.context  # the function's source may have it
        context.reader, context.transaction, context.call = fresh.reader, fresh.transaction, fresh.call
        context.catalog = fresh.catalog

    def refuse_again(self) -> None:
        """0Z002: RAISE without anything, outside of a handler."""
        message = "RAISE without parameters cannot be used outside an exception handler"
        raise SqlError("0Z002", message)
