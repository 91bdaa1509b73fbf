"""User-defined functions and procedures as `Function`s, so that names are resolved as for built-in ones.

No implementation has their `source`: their body replaces the call (engine/sql/analyze/routines.py). Only constructors
of ranges are implemented as the built-in ones are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from catalog.extensions import brought_by
from catalog.functions.added import NOTHING, Added
from catalog.functions.base import Aggregate, Cast, Function, Operator
from catalog.text_search.objects import (
    TextSearchConfiguration,
)
from catalog.types import element_of, format_type, oids
from catalog.types.base import TypeRef
from catalog.types.user import FIRST_ADDED_OID

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.schema import AggregateParts, Routine, UserOperator

LANGUAGE = "user"  # the language of a Function made from a Routine
_VARIADIC = {oids.ANYARRAY: oids.ANYELEMENT, oids.ANYCOMPATIBLEARRAY: oids.ANYCOMPATIBLE, oids.ANY: oids.ANY}


def function_of(routine: Routine, columns: tuple[tuple[str, TypeRef], ...] = ()) -> Function:
    """The routine as a function. `columns`: the columns of the relation whose rows it returns."""
    body = routine.body if routine.is_constructor else ""
    return _function_of(replace(routine, body=body, statements=None, comment=None), columns)


@lru_cache(4096)
def _function_of(routine: Routine, columns: tuple[tuple[str, TypeRef], ...]) -> Function:
    """`function_of` for a routine without its long parts, which the cache would otherwise keep in memory."""
    inputs = routine.inputs
    defaults = tuple(item.default for item in inputs if item.default is not None)
    outputs = [(item.name, item.type.oid) for item in routine.outputs]
    if columns:
        outputs = [(name, type_.oid) for name, type_ in columns]
    last = inputs[-1] if inputs else None
    variadic = 0
    if last is not None and last.mode == "v":
        variadic = _VARIADIC.get(last.type.oid) or element_of(last.type.oid)
    return Function(
        oid=routine.oid,
        name=routine.name,
        source=routine.body if routine.is_constructor else f"routine {routine.oid}",
        kind=routine.kind,
        strict=routine.strict,
        returns_set=routine.returns_set,
        volatility=routine.volatility,
        argument_types=routine.signature,
        result_type=routine.result.oid,
        variadic=variadic,
        default_count=len(defaults),
        argument_names=tuple(item.name for item in inputs) if any(item.name for item in inputs) else (),
        output_names=tuple(name or f"column{number}" for number, (name, _) in enumerate(outputs, 1)),
        output_types=tuple(oid for _, oid in outputs),
        defaults=defaults,
        language="internal" if routine.is_constructor else LANGUAGE,
        cost=routine.cost,
        rows=routine.rows,
        aggregate=None if routine.aggregate is None else _declaration(routine.oid, routine.aggregate),
    )


def _declaration(oid: int, parts: AggregateParts) -> Aggregate:
    """The declaration of an aggregate as resolution and planning need it."""
    return Aggregate(
        oid, parts.kind, parts.direct, parts.transition, parts.final, parts.sort_operator, parts.state.oid,
        parts.initial, parts.final_extra,
    )  # fmt: skip


def function_in(catalog: Catalog, routine: Routine) -> Function:
    """The routine as a function, with the present columns of its relation."""
    relation = catalog.get(routine.relation) if routine.relation else None
    columns = getattr(relation, "columns", ())
    return function_of(routine, tuple((column.name, column.type) for column in columns))


def added_by(catalog: Catalog) -> Added:
    """The functions and operators of a database that are not built in."""
    if not catalog.extensions and not catalog.code:
        return NOTHING
    found = brought_by(catalog)
    functions = {name: list(items) for name, items in found.functions.items()}
    schemas = dict(found.schemas)
    by_oid: dict[int, Function] = {}
    for name, routines in catalog.routines.items():
        for routine in routines:
            schema = catalog.schema_name(routine.schema)
            functions.setdefault(name, []).append((schema, function_in(catalog, routine)))
            function = functions[name][-1][1]
            by_oid[routine.oid], schemas[routine.oid] = function, schema
    operators = {name: list(items) for name, items in found.operators.items()}
    for name, defined in catalog.operators.items():
        for item in defined:
            schema = catalog.schema_name(item.schema)
            if item.function:
                operators.setdefault(name, []).append((schema, operator_of(item)))
            schemas[item.oid] = schema
    casts = {
        types: Cast(item.source, item.target, item.function, item.context, item.method)
        for types, item in catalog.casts.items()
    }
    between_built_in = any(max(types) < FIRST_ADDED_OID for types in casts)
    names = {oid: (catalog.schema_name(item.schema), item.name) for oid, item in catalog.text_search.items()}
    configured = {oid for oid, item in catalog.text_search.items() if isinstance(item, TextSearchConfiguration)}
    return Added(
        functions, operators, schemas,
        {**found.dictionaries, **{oid: name for oid, name in names.items() if oid not in configured}},
        {oid: names[oid] for oid in configured}, catalog.text_search, by_oid, casts, {}, between_built_in,
    )  # fmt: skip


def operator_of(item: UserOperator) -> Operator:
    """A user-defined operator, so that it is resolved as a built-in one."""
    return Operator(
        item.oid, item.name, item.left, item.right, item.result, item.function, item.commutator, item.negator
    )


def shown_operator(item: UserOperator | Operator) -> str:
    """The operator in messages: '+(integer,text)'."""
    left = format_type(item.left) if item.left else "NONE"
    return f"{item.name}({left},{format_type(item.right) if item.right else 'NONE'})"


def shown_signature(routine: Routine) -> str:
    """The routine in messages: 'f(integer,text)'."""
    return f"{routine.name}({','.join(format_type(oid) for oid in routine.signature)})"
