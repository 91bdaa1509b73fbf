"""Names and signatures of the UDFs that generated SQL calls.

    f_<function oid>[_<argument type oids>]   the Python side of a function; with the types if they can vary
    s_..., a_...                              a set-returning function, an aggregate (over LISTs)
    a_..._<argument><a|d><f|l>                a DISTINCT aggregate, which sorts by its arguments
    shoal_<source>                            a function that an implementation's own SQL calls
    out_<type>, in_<type>[_<typmod>]          text forms
    len_<type>_<typmod>_<e|i>                 length coercion
    key_<type>                                order-preserving key

A name ends in _t if arrays are text. Equal names have equal signatures, so that the worker registers each once. Values
are in the declared forms (`forms.form_of`); numeric is always general (VARCHAR).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from hashlib import blake2b

from catalog.duckdb.types import DuckDBType, StructType, list_of, struct_of
from catalog.errors import not_supported
from catalog.functions import registry
from catalog.functions.base import Function, Implementation, udf_name
from catalog.types import columns_of, element_of, oids, type_row
from catalog.types.base import TypeRef
from catalog.types.user import FIRST_USER_OID
from engine.columnar.generate.forms import arrays_as_text, form_of
from engine.columnar.interface import UdfSignature
from engine.execute.user_aggregates import BuiltInSteps

_UNDECIDED = oids.POLYMORPHIC | {oids.ANY}
TEXT = TypeRef(oids.TEXT)


def udf_form(oid: int) -> DuckDBType:
    """Returns the DuckDB type of a UDF's arguments and results of this type."""
    return form_of(oid, -1)


def function_signature(
    function: Function,
    found: Implementation,
    arguments: Sequence[TypeRef],
    result: TypeRef,
    *,
    name: str = "",
) -> UdfSignature:
    """Returns the UDF of a function for arguments of these actual types."""
    if not name:
        name = f"f_{function.oid}"
        actual = tuple(argument.oid for argument in arguments)
        polymorphic = any(oid in _UNDECIDED for oid in (*function.argument_types, function.result_type))
        if polymorphic or (oids.CIDR in actual and actual != function.argument_types):  # an inet argument may be a cidr
            name += "".join(f"_{argument.oid}" for argument in arguments) + f"_{result.oid}"
    return UdfSignature(
        name=name,
        kind="function",
        source=function.source,
        argument_types=tuple(arguments),
        argument_duckdb=tuple(str(udf_form(argument.oid)) for argument in arguments),
        result_type=TypeRef(result.oid),
        result_duckdb=str(udf_form(result.oid)),
        strict=function.strict,
        context="call" if found.needs_context else "",
        volatile=function.volatility == "v",
    )


def row_signature(source: str, arguments: Sequence[TypeRef], result: TypeRef, *, strict: bool = False) -> UdfSignature:
    """Returns the UDF of a function of catalog/functions/composites.py, or another without a row in pg_proc, for these
    types."""
    name = "_".join([source, *(str(item.oid) for item in arguments), str(result.oid)])
    return UdfSignature(
        name=name,
        kind="function",
        source=source,
        argument_types=tuple(arguments),
        argument_duckdb=tuple(str(udf_form(item.oid)) for item in arguments),
        result_type=TypeRef(result.oid),
        result_duckdb=str(udf_form(result.oid)),
        strict=strict,
    )


def is_composite(oid: int) -> bool:
    """Whether the OID is that of a user-defined composite type."""
    row = None if oid < FIRST_USER_OID else type_row(oid)
    return row is not None and row.kind == "c"


def struct_form(fields: Sequence[TypeRef]) -> StructType:
    """Returns the STRUCT of a record with fields of these types: f1, f2, ..."""
    return struct_of(udf_form(item.oid) for item in fields)


def set_signature(
    function: Function,
    found: Implementation,
    arguments: Sequence[TypeRef],
    result: TypeRef,
    fields: Sequence[TypeRef],
) -> UdfSignature:
    """Returns the UDF of a set-returning function. It returns a LIST of the rows, of STRUCTs if there are `fields`."""
    row = struct_form(fields) if fields else udf_form(result.oid)
    suffix = ""
    undeclared = bool(fields) and not function.output_types  # a column definition list gives their types
    if undeclared or any(oid in _UNDECIDED for oid in (*function.argument_types, function.result_type)):
        suffix = "".join(f"_{item.oid}" for item in (*arguments, *(fields or (result,))))
    return UdfSignature(
        name=f"s_{function.oid}{suffix}",
        kind="set",
        source=function.source,
        argument_types=tuple(arguments),
        argument_duckdb=tuple(str(udf_form(argument.oid)) for argument in arguments),
        result_type=TypeRef(result.oid),
        result_duckdb=str(list_of(row)),
        strict=function.strict,
        context="call" if found.needs_context else "",
        volatile=function.volatility == "v",
        result_fields=tuple(fields),
    )


def aggregate_signature(
    function: Function,
    arguments: Sequence[TypeRef],
    result: TypeRef,
    direct: int,
    distinct: Sequence[tuple[int, bool, bool]] = (),
    *,
    sees_nulls: bool = False,
    steps: BuiltInSteps | None = None,
) -> UdfSignature:
    """Returns the UDF of an aggregate. Each argument after the first `direct` ones is a LIST; `distinct` as in
    UdfSignature. `steps`: of a user-defined aggregate, which may be replaced by another one with its OID."""
    suffix = "".join(f"_{item.oid}" for item in arguments)
    if steps is not None:
        suffix += "_" + blake2b(repr((steps, result.oid, sees_nulls)).encode(), digest_size=8).hexdigest()
    suffix += "".join(f"_{place}{'da'[not down]}{'fl'[not first]}" for place, down, first in distinct)
    return UdfSignature(
        name=f"a_{function.oid}{suffix}",
        kind="aggregate",
        source=function.source,
        argument_types=tuple(arguments),
        argument_duckdb=tuple(
            str(list_of(udf_form(argument.oid)) if number >= direct else udf_form(argument.oid))
            for number, argument in enumerate(arguments)
        ),
        result_type=TypeRef(result.oid),
        result_duckdb=str(udf_form(result.oid)),
        strict=not sees_nulls,
        direct=direct,
        distinct=tuple(distinct),
        steps=steps,
    )


def output_signature(oid: int) -> UdfSignature:
    """Returns the UDF of the type's output function."""
    kind = element_of(oid) or oid
    depends = columns_of(kind).output_of_settings or is_composite(kind)
    return UdfSignature(
        name=f"out_{oid}",
        kind="output",
        source="",
        argument_types=(TypeRef(oid),),
        argument_duckdb=(str(udf_form(oid)),),
        result_type=TEXT,
        result_duckdb="VARCHAR",
        context="settings" if depends else "",
    )


def input_signature(target: TypeRef) -> UdfSignature:
    """Returns the UDF of the type's input function."""
    kind = element_of(target.oid) or target.oid
    depends = columns_of(kind).input_of_settings or is_composite(kind)
    suffix = f"_{target.typmod}" if target.typmod >= 0 else ""
    return UdfSignature(
        name=f"in_{target.oid}{suffix}",
        kind="input",
        source="",
        argument_types=(TEXT,),
        argument_duckdb=("VARCHAR",),
        result_type=target,
        result_duckdb=str(udf_form(target.oid)),
        context="settings" if depends else "",
    )


def length_signature(target: TypeRef, explicit: bool) -> UdfSignature:
    """Returns the UDF that coerces a value to the type's modifier."""
    return UdfSignature(
        name=f"len_{target.oid}_{target.typmod}_{'e' if explicit else 'i'}",
        kind="length",
        source="explicit" if explicit else "implicit",
        argument_types=(TypeRef(target.oid),),
        argument_duckdb=(str(udf_form(target.oid)),),
        result_type=target,
        result_duckdb=str(udf_form(target.oid)),
    )


def key_signature(oid: int) -> UdfSignature:
    """Returns the UDF that converts a value to bytes with the same order."""
    return _key_signature(oid, str(udf_form(oid)))


@functools.cache
def _key_signature(oid: int, form: str) -> UdfSignature:
    return UdfSignature(
        name=f"key_{oid}",
        kind="key",
        source="",
        argument_types=(TypeRef(oid),),
        argument_duckdb=(form,),
        result_type=TypeRef(oids.BYTEA),
        result_duckdb="BLOB",
    )


@functools.cache
def _by_source() -> dict[str, Function]:
    """Returns the first function of each source, because an implementation's own SQL calls UDFs by source."""
    found: dict[str, Function] = {}
    for oid in registry.function_oids():
        function = registry.function(oid)
        found.setdefault(function.source, function)
    return found


@functools.cache
def named_signature(source: str) -> UdfSignature:
    """Returns the UDF `udf_name(source)`. Raises 0A000 if the source has no implementation."""
    function, found = _by_source().get(source), registry.implementation(source)
    if function is None or found is None:
        not_supported(f"function {source}")
    arguments = [TypeRef(oid) for oid in function.argument_types]
    with arrays_as_text(False):  # an implementation's own SQL uses LISTs
        return function_signature(function, found, arguments, TypeRef(function.result_type), name=udf_name(source))
