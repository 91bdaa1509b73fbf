"""A routine of the catalog as its body must know it."""

from __future__ import annotations

from catalog.schema import Routine
from catalog.types import format_type, lookup, oids
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from engine.sql.plpgsql.parser import Argument, Signature


def signature_of(routine: Routine, result: TypeRef | None = None) -> Signature:
    """The signature. `result`: of a call with actual types."""
    returned = routine.result if result is None else result
    anonymous = returned.oid == oids.RECORD
    return Signature(
        routine.name,
        tuple(Argument(item.name, item.type, item.mode) for item in routine.arguments),
        None if anonymous else returned,
        routine.returns_set,
        routine.kind == "p",
        isinstance(lookup(returned.oid), CompositeType),
    )


def shown(routine: Routine) -> str:
    """'f(integer,text)', as the context of errors calls it (format_procedure)."""
    return f"{routine.name}({','.join(map(format_type, routine.signature))})"
