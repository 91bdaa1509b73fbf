"""The field types of rows of no declared type. An anonymous record carries no types itself, so they are searched where
it was made, through sub-queries, VALUES, WITH queries and set operations.

`levels` are the queries around an expression, the outermost first; the last one contains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from catalog.errors import SqlError
from catalog.functions.base import Trait
from catalog.functions.registry import has_trait
from catalog.routines import LANGUAGE
from catalog.types import lookup
from catalog.types.array import ArrayType
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, SqlType, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.incomparable import row_key
from catalog.types.named_objects import holds_names
from catalog.types.oids import RECORD_ARRAY, RECORDS
from catalog.types.pseudo import Record, record_binary_encoder, record_text_encoder
from engine.execute.code import NotOnRowPath
from engine.sql import tree
from engine.sql.analyze.column_definitions import check_row
from engine.sql.analyze.routine_columns import columns_of_call

Levels = tuple[tree.Query, ...]


def level_of(statement: tree.Query | tree.Insert | tree.Update | tree.Delete) -> tree.Query:
    """The statement as a query level: its columns and WITH queries."""
    if isinstance(statement, tree.Query):
        return statement
    return tree.Query(targets=(), range_table=statement.range_table, ctes=statement.ctes)


class AnonymousRow(Record):
    """A record whose fields are known."""

    def __init__(self, fields: Iterable[SqlType], declared: Iterable[TypeRef]) -> None:
        self.fields = tuple(fields)
        self._declared = tuple(item.declared for item in declared)

    @property
    def declared(self) -> list[TypeRef]:
        """The types of the fields, as clients see them."""
        pairs = zip(self.fields, self._declared, strict=True)
        return [TypeRef(known.oid, -1, declared if declared != known.oid else 0) for known, declared in pairs]

    def text_encoder(self, settings: FormatSettings = DEFAULT_FORMAT) -> Callable[[Any], bytes]:
        return record_text_encoder(self.fields, settings)

    def binary_encoder(self) -> Callable[[Any], bytes]:
        return record_binary_encoder(self.fields, self._declared)

    def sort_key(self) -> Callable[[Any], object]:
        """Field by field, NULLs equal to each other and after all else (record_cmp)."""
        return row_key(self.fields)

    def equality_key(self) -> Callable[[Any], object]:
        return row_key(self.fields, equality=True)


def known_type(expression: tree.Expr, levels: Levels) -> SqlType:
    """The type of an expression, with the fields of its rows. Raises NotOnRowPath if it is unknown."""
    oid = expression.type.oid
    return _one(_types(expression, levels)) if oid in RECORDS else lookup(oid)


def row_text_encoder(expression: tree.Expr, levels: Levels, settings: FormatSettings) -> Callable[[Any], bytes]:
    """The output function of an expression's type. Raises NotOnRowPath for rows with names of objects in them, which
    only a session can look up, and the errors of `known_type`."""
    known = known_type(expression, levels)
    if _holds_names(known):
        raise NotOnRowPath("names of objects within a row")
    return known.text_encoder(settings)


def _holds_names(known: SqlType) -> bool:
    if isinstance(known, ArrayType):
        return _holds_names(known.element)
    if isinstance(known, AnonymousRow):
        return any(map(_holds_names, known.fields))
    return holds_names(known)


def known_output(query: tree.Query, column: int, type_: TypeRef, levels: Levels) -> SqlType:
    """The type of a column (from 1) of a query, which is the last of `levels`; of every arm of a set operation."""
    return _one(_types_of_output(query, column, levels[:-1])) if type_.oid in RECORDS else lookup(type_.oid)


def as_defined(
    array: tree.Expr, columns: Sequence[TypeRef], levels: Levels
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function that converts the elements of an array of rows to those of a column definition list: NULL is a row of
    NULLs. It raises 42804 at the first row with other fields (tupledesc_match), and NotOnRowPath like `known_type`."""
    error: SqlError | None = None
    if not _only_nulls(array):
        known = known_type(array, levels)
        element = known.element if isinstance(known, ArrayType) else None
        if isinstance(element, AnonymousRow):
            fields = element.declared
        elif isinstance(element, CompositeType):
            fields = [reference for _, reference in element.fields]
        else:
            raise NotOnRowPath("rows of unknown type")
        try:
            check_row(fields, columns)
        except SqlError as wrong:
            error = wrong
    nothing = (None,) * len(columns)

    def rows(values: Iterable[Any]) -> Iterator[Any]:
        for row in values:
            if row is not None and error is not None:
                raise SqlError(error.sqlstate, error.message, detail=error.detail)
            yield nothing if row is None else row

    return rows


def _only_nulls(array: tree.Expr) -> bool:
    """Whether it is visibly an array of NULLs, which are rows of no type."""
    if isinstance(array, tree.ArrayExpr):
        return all(map(_only_nulls, array.elements))
    return isinstance(array, tree.Const) and array.value is None


def _one(types: Iterable[SqlType | None]) -> SqlType:
    found = [known for known in types if known is not None]
    if not found or any(_shape(known) != _shape(found[0]) for known in found[1:]):
        raise NotOnRowPath("a row of unknown type")
    return found[0]


def _shape(known: SqlType) -> object:
    if isinstance(known, AnonymousRow):
        return tuple(map(_shape, known.fields))
    if isinstance(known, ArrayType) and isinstance(known.element, AnonymousRow):
        return [_shape(known.element)]
    return known.oid


def _types(expression: tree.Expr, levels: Levels) -> list[SqlType | None]:
    """The types that the values of an expression may have; None for one that is NULL."""
    match expression:
        case tree.Const(value=None):
            return [None]
        case tree.RowExpr(elements=elements):
            return [AnonymousRow((known_type(item, levels) for item in elements), (item.type for item in elements))]
        case tree.ArrayExpr(elements=elements, nested=nested):
            if nested:
                return [known_type(item, levels) for item in elements]
            return [_array(known_type(item, levels)) for item in elements]
        case tree.FuncExpr(function=function, arguments=arguments) if has_trait(function.source, Trait.GROWS_ARRAY):
            return [
                known_type(item, levels) if item.type.oid == RECORD_ARRAY else _array(known_type(item, levels))
                for item in arguments
                if not isinstance(item, tree.Const)
            ]
        case tree.FuncExpr(function=function) if function.language == LANGUAGE and function.output_types:
            declared = [column.type for column in columns_of_call(expression)]
            return [AnonymousRow((lookup(type_.oid) for type_ in declared), declared)]
        case tree.CaseExpr(whens=whens, default=default):
            return [known for item in (*(value for _, value in whens), default) for known in _types(item, levels)]
        case tree.CoalesceExpr(arguments=arguments) | tree.MinMaxExpr(arguments=arguments):
            return [known for item in arguments for known in _types(item, levels)]
        case tree.RelabelType(argument=argument):
            return _types(argument, levels)
        case tree.Aggref(function=function, arguments=(argument,)) if function.name == "array_agg":
            known = known_type(argument, levels)
            return [known if argument.type.oid == RECORD_ARRAY else _array(known)]
        case tree.SubLink(kind="expr", query=query):
            return _types(query.output[0].expression, (*levels, query))
        case tree.SubLink(kind="array", query=query):
            return [_array(known_type(query.output[0].expression, (*levels, query)))]
        case tree.Var():
            return _types_of_column(expression, levels)
    raise NotOnRowPath("a row of unknown type")


def _array(element: SqlType) -> SqlType:
    return ArrayType(RECORD_ARRAY, "_record", element)


def _types_of_column(variable: tree.Var, levels: Levels) -> list[SqlType | None]:
    around = levels[: len(levels) - variable.levels_up]
    entry = around[-1].range_table[variable.relation] if around else None
    if variable.column == 0:
        if isinstance(entry, tree.RangeTable):
            declared = [column.type for column in entry.table.columns]
            return [AnonymousRow((lookup(type_.oid) for type_ in declared), declared)]
        if entry is None:
            raise NotOnRowPath("a row of unknown type")
        columns = [tree.Var(variable.relation, n, column.type) for n, column in enumerate(entry.columns, 1)]
        return [AnonymousRow((known_type(column, around) for column in columns), (column.type for column in columns))]
    if isinstance(entry, tree.RangeSubquery):
        return _types_of_output(entry.query, variable.column, around)
    if isinstance(entry, tree.RangeValues):
        return [known for row in entry.rows for known in _types(row[variable.column - 1], around)]
    if isinstance(entry, tree.RangeCte):
        outside = around[: len(around) - entry.levels_up]
        cte = next((item for item in outside[-1].ctes if item.name == entry.name), None) if outside else None
        if cte is not None and isinstance(cte.query, tree.Query):
            return _types_of_output(cte.query, variable.column, outside, cte.recursive)
    if isinstance(entry, tree.RangeJoin):
        return _types(entry.expressions[variable.column - 1], around)
    raise NotOnRowPath("a row of unknown type")


def _types_of_output(query: tree.Query, column: int, around: Levels, recursive: bool = False) -> list[SqlType | None]:
    """The types of a column of a query: one for each arm of a set operation, but only the first arm's for a recursive
    one."""
    inside = (*around, query)
    operation = query.set_operation
    if operation is None:
        return _types(query.output[column - 1].expression, inside)
    found: list[SqlType | None] = []
    pending: list[tree.SetOperation | tree.FromRef] = [operation.left if recursive else operation]
    while pending:
        arm = pending.pop()
        if isinstance(arm, tree.SetOperation):
            pending += [arm.left, arm.right]
            continue
        entry = query.range_table[arm.relation]
        assert isinstance(entry, tree.RangeSubquery)
        found += _types_of_output(entry.query, column, inside)
    return found
