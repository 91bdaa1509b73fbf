"""The derived collation of an expression (parse_collate.c), and the errors if it is not determined."""

from __future__ import annotations

from dataclasses import dataclass

from catalog.errors import SqlError
from catalog.types import format_type
from catalog.types.base import TypeRef

NONE, IMPLICIT, CONFLICT, EXPLICIT = range(4)
_HINT = "Use the COLLATE clause to set the collation explicitly."


@dataclass(frozen=True, slots=True)
class Derived:
    """The collation of an expression, and its strength. `other`: the collation with which it conflicts."""

    strength: int = NONE
    oid: int = 0
    location: int = -1
    other: int = 0


def indeterminate(what: str = "string comparison") -> SqlError:
    """42P22."""
    return SqlError("42P22", f"could not determine which collation to use for {what}", hint=_HINT)


def no_collation(column: str, type_: TypeRef) -> SqlError:
    """42P22 for a column of a new relation."""
    shown = format_type(type_.oid)
    return SqlError("42P22", f'no collation was derived for column "{column}" with collatable type {shown}', hint=_HINT)
