"""CREATE TYPE ... AS RANGE (DefineRange in typecmds.c): a range type, its multirange type, the constructors of both,
and the cast from one to the other.

A canonical function takes the type that is being created, so it needs a shell type, and is refused as PostgreSQL does
without one. Bounds are compared by the default order of their type, so operator classes with the same order are
accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

from catalog import collations, types
from catalog.errors import SqlError, not_supported
from catalog.operator_classes import OperatorClass, family_name
from catalog.routines import LANGUAGE
from catalog.row_types import is_row_type
from catalog.schema import (
    BOOTSTRAP_ROLE_OID,
    Domain,
    Routine,
    RoutineArgument,
    Schema,
    UserCast,
    UserMultirange,
    UserRange,
)
from catalog.types import oids
from catalog.types.base import TypeRef
from engine.ddl.context import DdlContext
from engine.ddl.definitions import DefinitionItems
from engine.ddl.index_columns import class_named, find_default_class
from engine.ddl.ownership import user_role
from engine.ddl.user_types import place_of, refuse_if_taken
from engine.sql import ast
from engine.sql.analyze.common_types import find_pathway
from engine.sql.analyze.resolve import find_function, signature
from engine.sql.analyze.routine_rights import check_execute

_KNOWN = ("subtype", "subtype_opclass", "collation", "canonical", "subtype_diff", "multirange_type_name")
_OTHER_ORDER = frozenset(("record_image_ops", "bpchar_pattern_ops"))
"""Families of btree classes whose order is not the default order of their type."""


def create(context: DdlContext, statement: ast.CreateRangeStmt) -> str:
    """Raises 42710, 42601, 42704, 42804, 42809, 42883, 42P17, 0A000."""
    schema, name = place_of(context, statement.name)
    given = _read(statement)
    if "canonical" in given.items:
        raise SqlError(
            "42P17",
            "cannot specify a canonical function without a pre-created shell type",
            hint="Create the type as a shell type, then create its canonicalization function, then do a full "
            "CREATE TYPE.",
        )
    subtype = given.type(context, "subtype")
    if subtype is None:
        raise SqlError("42601", 'type attribute "subtype" is required')
    if types.type_row(subtype.declared).kind == "p":  # type: ignore[union-attr]
        raise SqlError("42804", f"range subtype cannot be {types.format_type(subtype.declared)}")
    if isinstance(context.catalog.objects.get(subtype.declared), Domain):
        not_supported(f"a range over the domain {types.format_type(subtype.declared)}")
    if is_row_type(types.element_of(subtype.oid) or subtype.oid):
        not_supported(f"a range over {types.format_type(subtype.oid)}, the row of a table")
    class_ = _class_for(context, given.names("subtype_opclass"), subtype.oid)
    collation = _collation(context, given, subtype.oid)
    difference = _difference(context, given.names("subtype_diff"), subtype.oid)
    place, other = _multirange_place(context, given.names("multirange_type_name"), schema, name)
    owner = context.user_oid
    oid, array, multirange, multirange_array = (context.new_oid() for _ in range(4))
    made = UserRange(
        oid, schema.oid, name, array, subtype.oid, multirange, class_.oid, collation, difference, owner=owner
    )
    many = UserMultirange(multirange, place.oid, other, multirange_array, oid, owner=owner)
    context.change({item.oid: item for item in (made, many)})
    _make_constructors(context, made, many)
    return "CREATE TYPE"


def _read(statement: ast.CreateRangeStmt) -> DefinitionItems:
    found = DefinitionItems()
    for item in statement.definition:
        assert isinstance(item, ast.DefinitionItem)
        if item.name not in _KNOWN:
            raise SqlError("42601", f'type attribute "{item.name}" not recognized')
        if item.name in found.items:
            raise SqlError("42601", "conflicting or redundant options", position=item.location + 1)
        found.items[item.name] = item
    return found


def _class_for(context: DdlContext, names: tuple[str, ...], subtype: int) -> OperatorClass:
    """findRangeSubOpclass: the named operator class, or the default one of the type."""
    if not names:
        found = find_default_class(context, "btree", subtype)
        if found is None or types.lookup(subtype).key_encoder() is None:
            raise SqlError(
                "42704",
                f'data type {types.format_type(subtype)} has no default operator class for access method "btree"',
                hint="You must specify an operator class for the range type or define a default operator class for the"
                " subtype.",
            )
        return found
    found = class_named(context, "btree", names)
    if not found.takes(subtype) and find_pathway(found.type, subtype, "i")[0] != "relabel":
        shown = f'operator class "{".".join(names)}" does not accept data type {types.format_type(subtype)}'
        raise SqlError("42804", shown)
    if family_name(found) in _OTHER_ORDER or types.lookup(subtype).key_encoder() is None:
        not_supported(f'operator class "{found.name}" for a range')
    return found


def _collation(context: DdlContext, given: DefinitionItems, subtype: int) -> int:
    """The collation of the bounds: one that compares bytes, or 0 for a type without collations."""
    typed = collations.of_type(subtype)
    names = given.names("collation")
    if not typed and names:
        raise SqlError("42809", "range collation specified but subtype does not support collation")
    found = context.environment.find_collation(names).oid if names else typed
    if collations.rules(context.catalog, found) is not None:
        not_supported("an ICU collation for a range type")
    return found


def _difference(context: DdlContext, names: tuple[str, ...], subtype: int) -> int:
    """findRangeSubtypeDiffFunction: the OID of the function; 0 if none was given."""
    if not names:
        return 0
    context.environment.make_current()
    inputs = (subtype, subtype)
    schema = names[-2] if len(names) > 1 else None
    candidate = find_function(names[-1], inputs, expand_variadic=False, schema=schema).candidate
    shown = signature(".".join(names), inputs)
    if candidate is None or candidate.types != inputs:
        raise SqlError("42883", f"function {shown} does not exist")
    function = candidate.function
    if function.result_type != oids.FLOAT8:
        raise SqlError("42P17", f"range subtype diff function {shown} must return type double precision")
    if function.volatility != "i":
        raise SqlError("42P17", f"range subtype diff function {shown} must be immutable")
    if function.language == LANGUAGE:
        routine = context.catalog.get(function.oid)
        assert isinstance(routine, Routine)
        check_execute(routine, context.catalog, user_role(context))
    return function.oid


def _multirange_place(context: DdlContext, names: tuple[str, ...], schema: Schema, name: str) -> tuple[Schema, str]:
    """The schema and the name of the multirange type. Raises 42710."""
    if names:
        if names[-1] == name and (len(names) == 1 or names[-2] == schema.name):
            raise SqlError(
                "23505",
                'duplicate key value violates unique constraint "pg_type_typname_nsp_index"',
                detail=f"Key (typname, typnamespace)=({name}, {schema.oid}) already exists.",
            )
        return place_of(context, names)
    made = multirange_name(name)
    try:
        refuse_if_taken(context, schema.oid, made)
    except SqlError as error:
        error.detail = f'Failed while creating a multirange type for type "{name}".'
        error.hint = 'You can manually specify a multirange type name using the "multirange_type_name" attribute.'
        raise
    return schema, made


def multirange_name(name: str) -> str:
    """makeMultirangeTypeName: "multi" before the first "range" in the name, or "_multirange" after it."""
    if "range" in name:
        made = name.replace("range", "multirange", 1)
        return made.encode()[:63].decode(errors="ignore")
    return name.encode()[: 63 - len("_multirange")].decode(errors="ignore") + "_multirange"


def _make_constructors(context: DdlContext, made: UserRange, many: UserMultirange) -> None:
    """makeRangeConstructors and makeMultirangeConstructors, and the cast between the types."""
    bound, flags, one = TypeRef(made.subtype), TypeRef(oids.TEXT), TypeRef(made.oid)
    _constructor(context, made, "range_constructor2", (bound, bound), strict=False)
    _constructor(context, made, "range_constructor3", (bound, bound, flags), strict=False)
    _constructor(context, many, "multirange_constructor0", ())
    of_one = _constructor(context, many, "multirange_constructor1", (one,))
    _constructor(context, many, "multirange_constructor2", (TypeRef(made.array_oid),), variadic=True)
    cast = UserCast(context.new_oid(), context.catalog.database, made.oid, many.oid, of_one, "e", "f")
    context.change({cast.oid: cast})


def _constructor(
    context: DdlContext,
    item: UserRange | UserMultirange,
    source: str,
    arguments: Sequence[TypeRef],
    *,
    strict: bool = True,
    variadic: bool = False,
) -> int:
    found = tuple(RoutineArgument("", type_, "v" if variadic else "i") for type_ in arguments)
    routine = Routine(
        context.new_oid(), item.schema, item.name, "f", found, TypeRef(item.oid), False, source, volatility="i",
        strict=strict, parallel="s", cost=1.0, language="internal", owner=BOOTSTRAP_ROLE_OID,
    )  # fmt: skip
    context.change({routine.oid: routine}, granted=False)
    return routine.oid
