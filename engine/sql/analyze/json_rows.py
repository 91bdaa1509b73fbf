"""Arguments of functions that write values: rows, session-dependent values, and arrays after VARIADIC.

    to_json(t), row_to_json(t)   a record does not have its fields' names and types, so a row is replaced by
                                 row_to_json_object('id', t.id, 'name', t.name): {"id":1,"name":"x"}
    json_agg(t), json_agg(ts)    aggregates have no session, so to_json() converts values that depend on settings
                                 first, or json_line() for values on a line of their own
    to_json(c), concat(c)        regclass and similar values are numbers, whose names only the session knows: they are
                                 cast to text for functions that write values of any type
    concat(VARIADIC a)           functions of VARIADIC "any" take single arguments: an array is passed to the variant
                                 that reads its elements (catalog/functions/variadic_arrays.py)

A row that an outer join has added is NULL, and not an object of NULLs. A NOT NULL column shows this; a row without such
a column is refused.
"""

from __future__ import annotations

from catalog.functions import registry
from catalog.functions.base import Function, Trait
from catalog.functions.json_constructors import JSON_LINE, ROW_TO_JSON, is_settled, is_structured
from catalog.functions.registry import has_trait
from catalog.functions.variadic_arrays import TWINS
from catalog.types import element_of, lookup, oids
from catalog.types.base import EMPTY_ARRAY, TypeRef
from catalog.types.composite import CompositeType
from catalog.types.named_objects import holds_names
from engine.sql import ast, tree
from engine.sql.analyze.errors import refuse
from engine.sql.analyze.hstore_rows import call_with_columns
from engine.sql.analyze.scope import row_columns
from engine.sql.analyze.state import State

_JSON = TypeRef(oids.JSON)


def prepare_call(
    state: State, node: ast.FuncCall, function: Function, arguments: tuple[tree.Expr, ...]
) -> tuple[Function, tuple[tree.Expr, ...]]:
    """The function and the arguments that replace a call. Raises 0A000 for rows whose columns are unknown."""
    source, is_aggregate = function.source, function.kind == "a"
    if has_trait(source, Trait.TAKES_COLUMNS) and arguments[0].type.oid == oids.RECORD:
        return call_with_columns(state, function, arguments[0])
    writes_values, writes_json = has_trait(source, Trait.WRITES_VALUES), has_trait(source, Trait.WRITES_JSON)
    if writes_values or writes_json:
        arguments = tuple(map(write_value, arguments))
    if (writes_json and not is_aggregate) or has_trait(source, Trait.WRITES_ARRAY):
        arguments = tuple(map(_row_of_names, arguments))
    elif writes_values:
        arguments = tuple(map(_text_of_names, arguments))
    if node.variadic and source in TWINS:
        return registry.function(TWINS[source]), arguments
    if not writes_json:
        return function, arguments
    if has_trait(source, Trait.WRITES_ROW):
        if len(arguments) > 1 and not (isinstance(arguments[1], tree.Const) and arguments[1].value is False):
            refuse("row_to_json with line feeds", node.location)
        return _get_function("to_json"), (_row(state, arguments[0], node),)
    if is_aggregate:
        made = tuple(_aggregate(state, argument, function, node) for argument in arguments)
        if len(made) > 1 and made[0] is not arguments[0]:
            made = (_key(arguments[0], made[0]), *made[1:])
        return function, made
    return function, tuple(
        _row(state, argument, node) if argument.type.oid == oids.RECORD else argument for argument in arguments
    )


def write_value(value: tree.Expr) -> tree.Expr:
    """A value of a type that is shown by name, or an array of them, as text; any other value unchanged."""
    if value.type.oid in oids.NAMED_TYPES:
        return tree.CoerceViaIO(value, TypeRef(oids.TEXT), True)
    element = element_of(value.type.oid)
    if element in oids.NAMED_TYPES:
        inner = tree.CoerceViaIO(tree.CaseTestExpr(TypeRef(element)), TypeRef(oids.TEXT), True)
        return tree.ArrayCoerce(value, inner, TypeRef(oids.TEXT_ARRAY))
    return value


def _text_of_names(value: tree.Expr) -> tree.Expr:
    """A value of a composite type with such names, as text."""
    known = lookup(value.type.oid)
    if isinstance(known, CompositeType) and holds_names(known):
        return tree.CoerceViaIO(value, TypeRef(oids.TEXT), True)
    return value


def _row_of_names(value: tree.Expr) -> tree.Expr:
    """A value of a composite type with such names, as a JSON object."""
    known = lookup(value.type.oid)
    if not holds_names(known) or value.type.oid in oids.NAMED_TYPES or value.type.oid in oids.NAMED_ARRAY_TYPES:
        return value
    if not isinstance(known, CompositeType) or not isinstance(value, tree.Var | tree.Param | tree.FieldSelect):
        refuse(
            "JSON of rows with names of objects that are not a column or a parameter", getattr(value, "location", -1)
        )
    arguments: list[tree.Expr] = []
    for number, (name, type_) in enumerate(known.fields, 1):
        arguments.append(tree.Const(name, TypeRef(oids.TEXT)))
        arguments.append(write_value(_row_of_names(tree.FieldSelect(value, number, name, type_))))
    made = tree.FuncExpr(registry.function(ROW_TO_JSON), tuple(arguments), _JSON, location=value.location)
    there = tree.NullTest(value, False, TypeRef(oids.BOOL), whole=True)
    return tree.CaseExpr(None, ((there, made),), tree.Const(None, _JSON), _JSON)


def _get_function(name: str) -> Function:
    (function,) = registry.functions_named(name)
    return function


def _aggregate(state: State, argument: tree.Expr, function: Function, node: ast.FuncCall) -> tree.Expr:
    oid = argument.type.oid
    named = _row_of_names(argument)
    if oid != oids.RECORD and is_settled(oid) and named is argument:
        return argument
    if node.distinct:
        refuse(f"DISTINCT in {function.name} over values of this type", node.location)
    if oid == oids.RECORD:
        made = _row(state, argument, node)
    elif named is not argument:
        made = named
    else:
        made = tree.FuncExpr(_get_function("to_json"), (argument,), _JSON, location=node.location)
    if (is_structured(oid) or named is not argument) and function.source == "json_agg(anyelement)":
        return tree.FuncExpr(registry.function(JSON_LINE), (made,), _JSON, location=node.location)
    return made


def _key(value: tree.Expr, made: tree.Expr) -> tree.Expr:
    """The key of an object: the text of a value that became JSON first. Rows and arrays stay JSON, which no key may
    be."""
    if (
        value.type.oid in oids.RECORDS
        or element_of(value.type.oid)
        or isinstance(lookup(value.type.oid), CompositeType)
    ):
        return made
    here = tree.Const(EMPTY_ARRAY, TypeRef(oids.TEXT_ARRAY))
    return tree.FuncExpr(_get_function("json_extract_path_text"), (made, here), TypeRef(oids.TEXT), variadic=True)


def _row(state: State, row: tree.Expr, node: ast.FuncCall) -> tree.Expr:
    """The row as a JSON object, with nested rows."""
    if isinstance(row, tree.Const) and row.value is None:
        return tree.Const(None, _JSON)
    columns = row_columns(state, row)
    if columns is None:
        refuse("JSON of a row whose columns are not known", node.location)
    arguments: list[tree.Expr] = []
    for name, value in columns:
        arguments.append(tree.Const(name, TypeRef(oids.TEXT)))
        arguments.append(
            _row(state, value, node) if value.type.oid == oids.RECORD else write_value(_row_of_names(value))
        )
    made = tree.FuncExpr(registry.function(ROW_TO_JSON), tuple(arguments), _JSON, location=node.location)
    return _unless_made_up(state, row, made, columns, node)


def _unless_made_up(
    state: State, row: tree.Expr, made: tree.Expr, columns: list[tuple[str, tree.Expr]], node: ast.FuncCall
) -> tree.Expr:
    """NULL for a row that an outer join has added."""
    if not isinstance(row, tree.Var) or row.column != 0:
        return made
    level = state.up(row.levels_up)
    if row.relation not in level.nullable:
        return made
    entry = level.entries[row.relation]
    known = None
    if isinstance(entry, tree.RangeTable):
        numbers = {column.number for column in entry.table.columns if column.not_null}
        known = next((v for _, v in columns if isinstance(v, tree.Var) and v.column in numbers), None)
    if known is None:
        refuse("JSON of a row on the nullable side of an outer join without a column that is NOT NULL", node.location)
    there = tree.NullTest(known, False, TypeRef(oids.BOOL))
    return tree.CaseExpr(None, ((there, made),), tree.Const(None, _JSON), _JSON)
