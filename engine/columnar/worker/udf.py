"""Python functions inside DuckDB: the same implementations that the row path calls, over Arrow columns.

`register` makes a DuckDB function of a `UdfSignature` (engine/columnar/interface.py describes its kinds). The function
converts the columns to internal-form values, calls the Python function for each row, and returns the results as an
Arrow column. DuckDB passes an SqlError of the Python function on as text, and `duckdb_errors.translate` restores it.
"""

from __future__ import annotations

import datetime
import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from catalog import types
from catalog.duckdb.types import ListType, parse_type
from catalog.errors import SqlError, not_supported
from catalog.functions.base import AggregateSteps, CallContext, Implementation
from catalog.functions.duckdb_errors import udf_error_message
from catalog.functions.registry import implementation
from catalog.memory import LARGE, meter, size_of
from catalog.text_search.description import lexicon_of
from catalog.types import oids
from catalog.types.base import FormatSettings
from engine.columnar.interface import CONTEXT_TYPES, UdfSignature, settings_of
from engine.columnar.worker import values
from engine.columnar.worker.calls import call
from engine.execute.measured import may_last
from engine.execute.row_order import each_once, sort_function, sort_rows
from engine.execute.user_aggregates import python_steps
from engine.storage.columns import one_array

RowFunction = Callable[..., Any]
SHORT = LARGE // 4  # characters: a shorter text is never a large value
_PARTITIONS = 32  # groups that are compared with the next one


def register(connection: Any, signature: UdfSignature) -> None:
    """Registers the function for all connections of the database. Raises 0A000 for a function without a Python
    implementation."""
    function = _Function(signature)
    parameters = [connection.sqltype(name) for name in signature.parameters]
    native = not parameters
    connection.create_function(
        signature.name,
        function,
        parameters,
        connection.sqltype(signature.result_duckdb),
        type="native" if native else "arrow",
        null_handling="special",
        side_effects=signature.volatile,
    )


class _Function:
    def __init__(self, signature: UdfSignature) -> None:
        self._signature = signature
        self._context_arguments = len(CONTEXT_TYPES[signature.context])
        with lexicon_of(signature.lexicon):
            self._maker = _MAKERS[signature.kind](signature)
        if signature.lexicon:
            self._maker = _with_lexicon(self._maker, signature.lexicon)
        self._made: dict[tuple[Any, ...], RowFunction] = {}
        self._may_be_large = signature.kind == "set" or may_last((), signature.result_type)
        self._oids = [reference.oid for reference in signature.argument_types]
        groups = len(self._oids) - signature.direct if signature.kind == "aggregate" else 0
        self._readers = [values.from_arrow] * (len(self._oids) - groups) + [_groups] * groups
        # DuckDB checks the number of parameters.
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(f"argument{i}", inspect.Parameter.POSITIONAL_ONLY)
                for i in range(len(signature.parameters))
            ]
        )

    def _row_function(self, context: tuple[Any, ...]) -> RowFunction:
        """Returns the function for these context values, and caches it."""
        made = self._made.get(context)
        if made is None:
            if len(self._made) > 64:
                self._made.clear()
            made = self._made[context] = self._maker(context)
        return made

    def __call__(self, *columns: Any) -> Any:
        """Takes Arrow columns and returns one Arrow column; without arguments, one value. Raises ValueError with the
        text of an SqlError."""
        try:
            return call(partial(self._column, columns) if columns else self._value)
        except SqlError as error:
            raise ValueError(udf_error_message(error)) from None

    def _value(self) -> Any:
        return _without_tuples(self._result([self._row_function(())()])[0].as_py())

    def _column(self, columns: Sequence[Any]) -> pa.Array:
        count = self._context_arguments
        rows = len(columns[0])
        if rows == 0:
            return self._result([])
        context = _context_values(columns[:count])
        function = self._row_function(context)
        arguments = [
            read(column, oid) for read, column, oid in zip(self._readers, columns[count:], self._oids, strict=True)
        ]
        if not arguments:
            return self._result(self._gather(function() for _ in range(rows)))
        if self._signature.strict and self._signature.kind != "aggregate":
            results = self._gather(None if None in row else function(*row) for row in zip(*arguments, strict=True))
        elif self._signature.kind == "aggregate":
            results = self._gather(_of_groups(function, arguments, self._signature.direct))
        else:
            results = self._gather(function(*row) for row in zip(*arguments, strict=True))
        return self._result(results)

    def _gather(self, made: Iterable[Any]) -> list[Any]:
        """Collects the results of many rows. Raises 53200 if the large results exceed the memory of their query."""
        if not self._may_be_large:
            return list(made)
        results, last = [], None
        own = meter()
        for value in made:
            results.append(value)
            if value is last or (value.__class__ is str and len(value) < SHORT):
                continue
            last = value  # windows over whole partitions repeat one value
            if size := sum(map(size_of, value)) + sys.getsizeof(value) if isinstance(value, list) else size_of(value):
                own.saw(size)
        return results

    def _result(self, results: list[Any]) -> pa.Array:
        signature = self._signature
        if signature.kind == "set":
            flat, offsets = _flatten(results)
            form = parse_type(signature.result_duckdb)
            assert isinstance(form, ListType)
            return pa.ListArray.from_arrays(offsets, self._items(flat, str(form.element)))
        return self._items(results, signature.result_duckdb)

    def _items(self, results: list[Any], kind: str) -> pa.Array:
        """Returns results as an Arrow array of the DuckDB type: of structs if the signature has result fields."""
        signature = self._signature
        if signature.kind == "key":
            return pa.array(results, type=pa.binary())
        if not signature.result_fields:
            return values.to_arrow(results, signature.result_type.oid, kind)
        kinds = values.struct_fields(kind)
        columns = [
            values.to_arrow([None if row is None else row[i] for row in results], reference.oid, kinds[i][1])
            for i, reference in enumerate(signature.result_fields)
        ]
        mask = pa.array([row is None for row in results], type=pa.bool_())
        return pa.StructArray.from_arrays(columns, names=[name for name, _ in kinds], mask=mask)


def _without_tuples(value: Any) -> Any:
    """Converts intervals to timedelta, which DuckDB accepts from Python. Raises 0A000 for an interval with months,
    which a timedelta cannot hold."""
    if isinstance(value, list):
        return [_without_tuples(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_tuples(item) for name, item in value.items()}
    if isinstance(value, pa.MonthDayNano):
        months, days, nanoseconds = value
        if months:
            not_supported("intervals with months from a function without arguments on this query")
        return datetime.timedelta(days=days, microseconds=nanoseconds // 1000)
    return value


def _context_values(columns: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the context arguments, which are equal in all rows: settings text, statement and transaction time."""
    if not columns:
        return ()
    times = [values.from_arrow(column.slice(0, 1), oids.TIMESTAMP)[0] for column in columns[1:]]
    return (columns[0][0].as_py(), *times)


def _groups(column: Any, oid: int) -> list[list[Any] | None]:
    """Returns a LIST column as a list of internal values for each row. Nearby rows with equal lists, as in windows over
    whole partitions, share one list object: separate lists would take quadratic time and memory."""
    array = one_array(column)
    inside, offsets = array.values, array.offsets.to_pylist()
    known = array.is_valid().to_pylist()
    # Arrow's `equals` is false for any two intervals.
    compared = inside.view(pa.binary(16)) if pa.types.is_interval(inside.type) else inside
    groups: list[list[Any] | None] = []
    met: deque[tuple[Any, list[Any]]] = deque(maxlen=_PARTITIONS)
    for i, there in enumerate(known):
        if not there:
            groups.append(None)
            continue
        place = offsets[i], offsets[i + 1] - offsets[i]
        piece = compared.slice(*place)
        for other, made in met:
            if len(other) == place[1] and other.equals(piece):
                groups.append(made)
                break
        else:
            made = values.from_arrow(inside.slice(*place), oid)
            met.appendleft((piece, made))
            groups.append(made)
    return groups


def _of_groups(function: RowFunction, arguments: Sequence[list[Any]], direct: int) -> list[Any]:
    """Returns an aggregate's results. Without direct arguments, rows that share their groups share a result."""
    if direct:
        return [function(*row) for row in zip(*arguments, strict=True)]
    results: list[Any] = []
    known: dict[tuple[int, ...], Any] = {}
    for row in zip(*arguments, strict=True):
        key = tuple(map(id, row))
        if key not in known:
            known[key] = function(*row)
        results.append(known[key])
    return results


def _flatten(results: list[Any]) -> tuple[list[Any], pa.Array]:
    """Returns the values of all sets in one list, and the offset of each set; the offset of a NULL list is None."""
    offsets: list[int | None] = []
    flat: list[Any] = []
    for result in results:
        if result is None:
            offsets.append(None)
            continue
        offsets.append(len(flat))
        flat.extend(result)
    offsets.append(len(flat))
    return flat, pa.array(offsets, type=pa.int32())


# ---- makers by kind of signature: a maker takes the context values and returns the function of a row -------------

Maker = Callable[[tuple[Any, ...]], RowFunction]


def _with_lexicon(maker: Maker, lexicon: str) -> Maker:
    """The maker, for a function that shows or reads names of text search objects."""

    def make(context: tuple[Any, ...]) -> RowFunction:
        with lexicon_of(lexicon):
            return maker(context)

    return make


def _settings(context: tuple[Any, ...]) -> FormatSettings:
    return settings_of(context[0]) if context else FormatSettings()


def _implementation(source: str) -> Implementation:
    found = implementation(source)
    if found is None:
        not_supported(f"function {source}")
    return found


def _python_side(signature: UdfSignature) -> Maker:
    found = _implementation(signature.source)
    python = found.python
    if python is None and found.python_for_types is not None:
        python = found.python_for_types(signature.argument_types, signature.result_type)
    if python is None:
        not_supported(f"function {signature.source} in an analytic query")
    side: RowFunction = python
    if not found.needs_context:
        return lambda context: side

    def bound(context: tuple[Any, ...]) -> RowFunction:
        settings = _settings(context)
        statement, transaction = context[1:] if len(context) == 3 else (0, 0)
        call = CallContext(statement, transaction, settings.timezone, None, settings)
        return lambda *arguments: side(call, *arguments)

    return bound


def _aggregate(signature: UdfSignature) -> Maker:
    if signature.steps is not None:
        steps: AggregateSteps | None = python_steps(
            signature.steps, signature.argument_types, signature.direct, signature.result_type
        )
    else:
        found = _implementation(signature.source)
        steps = found.python_aggregate
        if steps is None and found.aggregate_for_types is not None:
            steps = found.aggregate_for_types(signature.argument_types, signature.result_type)
    if steps is None:
        not_supported(f"aggregate {signature.source} in an analytic query")
    initial, step, final = steps
    strict, direct = signature.strict, signature.direct
    kinds = [types.lookup(argument.oid) for argument in signature.argument_types[direct:]]
    order = [
        (sort_function(place, kinds[place], descending, nulls_first), descending)
        for place, descending, nulls_first in signature.distinct
    ]

    def whole_group(*arguments: Any) -> Any:
        state = initial(*arguments[:direct])
        groups = arguments[direct:]
        if groups and groups[0] is not None:
            rows: Iterable[Sequence[Any]] = zip(*groups, strict=True)
            if order:
                sort_rows(gathered := list(rows), order)
                rows = each_once(gathered, kinds)
            for row in rows:
                if not (strict and None in row):
                    state = step(state, *row)
        return final(state)

    return lambda context: whole_group


def _input(signature: UdfSignature) -> Maker:
    target = types.lookup(signature.result_type.oid)
    return lambda context: target.text_decoder(_settings(context), signature.result_type.typmod)


def _output(signature: UdfSignature) -> Maker:
    source = types.lookup(signature.argument_types[0].oid)

    def bound(context: tuple[Any, ...]) -> RowFunction:
        encode = source.text_encoder(_settings(context))
        return lambda value: encode(value).decode()

    return bound


def _length(signature: UdfSignature) -> Maker:
    target = types.lookup(signature.result_type.oid)
    coerce = target.length_coercion(signature.result_type.typmod, signature.source == "explicit")
    function: RowFunction = coerce if coerce is not None else lambda value: value
    return lambda context: function


def _key(signature: UdfSignature) -> Maker:
    encode = types.lookup(signature.argument_types[0].oid).key_encoder()
    if encode is None:
        not_supported("ordering values of this type")
    function: RowFunction = encode
    return lambda context: function


_MAKERS: dict[str, Callable[[UdfSignature], Maker]] = {
    "function": _python_side,
    "set": _python_side,
    "aggregate": _aggregate,
    "input": _input,
    "output": _output,
    "length": _length,
    "key": _key,
}
