"""A routine of the catalog as its body must know it."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.schema import Routine
from catalog.types import format_type, lookup, oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from engine.sql.analyze.common_types import resolve_polymorphic
from engine.sql.plpgsql.declarations import Declared
from engine.sql.plpgsql.parser import Argument, Signature
from engine.sql.plpgsql.tree import Shape

_SPECIAL: tuple[tuple[str, Declared], ...] = (
    ("tg_name", TypeRef(oids.NAME)), ("tg_when", TypeRef(oids.TEXT)), ("tg_level", TypeRef(oids.TEXT)),
    ("tg_op", TypeRef(oids.TEXT)), ("tg_relid", TypeRef(oids.OID)), ("tg_relname", TypeRef(oids.NAME)),
    ("tg_table_name", TypeRef(oids.NAME)), ("tg_table_schema", TypeRef(oids.NAME)), ("tg_nargs", TypeRef(oids.INT4)),
    ("tg_argv", TypeRef(oids.TEXT_ARRAY)),
)  # fmt: skip
"""The variables of a trigger function behind NEW and OLD."""

_STAND_INS = {
    oids.ANYARRAY: oids.INT4_ARRAY, oids.ANYCOMPATIBLEARRAY: oids.INT4_ARRAY,
    oids.ANYRANGE: oids.INT4RANGE, oids.ANYCOMPATIBLERANGE: oids.INT4RANGE,
    oids.ANYMULTIRANGE: oids.INT4MULTIRANGE, oids.ANYCOMPATIBLEMULTIRANGE: oids.INT4MULTIRANGE,
}  # fmt: skip


def signature_of(routine: Routine, result: TypeRef | None = None, types: Sequence[int] = ()) -> Signature:
    """The signature. `result`, `types`: the result's type and the arguments' in a call; a polymorphic type becomes the
    one that it stands for there."""
    if routine.result.oid == oids.TRIGGER:
        return trigger_signature(routine)
    if routine.result.oid == oids.EVENT_TRIGGER:
        return event_trigger_signature(routine)
    declared = [item.type.oid for item in routine.inputs]

    def actual(type_: TypeRef) -> TypeRef:
        if not types or type_.oid not in oids.POLYMORPHIC:
            return type_
        return TypeRef(resolve_polymorphic(types, list(declared), type_.oid, False))

    returned = actual(routine.result if result is None else result)
    anonymous = returned.oid == oids.RECORD
    return Signature(
        routine.name,
        tuple(Argument(item.name, actual(item.type), item.mode) for item in routine.arguments),
        None if anonymous else returned,
        routine.returns_set,
        routine.kind == "p",
        isinstance(lookup(returned.oid), CompositeType),
    )


def trigger_signature(routine: Routine, shape: Shape | None = None) -> Signature:
    """The signature of a trigger function. `shape`: of the rows of the relation that it is compiled for."""
    rows: tuple[tuple[str, Declared], ...] = (("new", shape), ("old", shape))
    return Signature(routine.name, (), None, is_trigger=True, special=(*rows, *_SPECIAL))


def event_trigger_signature(routine: Routine) -> Signature:
    """The signature of an event trigger's function."""
    special: tuple[tuple[str, Declared], ...] = (("tg_event", TypeRef(oids.TEXT)), ("tg_tag", TypeRef(oids.TEXT)))
    return Signature(routine.name, (), TypeRef(oids.VOID), special=special)


def stand_ins(routine: Routine) -> tuple[int, ...]:
    """Types of arguments to check a body with: those of a polymorphic function as plpgsql_validator takes them."""
    return tuple(_STAND_INS.get(oid, oids.INT4) if oid in oids.POLYMORPHIC else oid for oid in routine.signature)


def text_of(routine: Routine) -> str:
    """'f(integer,text)', as the context of errors calls it (format_procedure)."""
    return f"{routine.name}({','.join(map(format_type, routine.signature))})"
