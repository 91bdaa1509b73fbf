"""Functions and operators that are not built in: those of the extensions of a database.

They are found by name in the schemas that the search path leads to, behind pg_catalog, or in the one that was named.
Resolution has no catalog at hand and must not pay for what nearly no database has, so what the running statement's
catalog has is kept beside it, in a context variable, as its types are (catalog/types/user.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from catalog.functions.base import Function, Operator


@dataclass(frozen=True, slots=True)
class Added:
    """What a catalog has, by name: (name of the schema, the object) each. `schemas`: of each by OID."""

    functions: Mapping[str, Sequence[tuple[str, Function]]] = field(default_factory=dict)
    operators: Mapping[str, Sequence[tuple[str, Operator]]] = field(default_factory=dict)
    schemas: Mapping[int, str] = field(default_factory=dict)


NOTHING = Added()
_current: ContextVar[tuple[Added, tuple[str, ...]]] = ContextVar("added", default=(NOTHING, ()))


def use(added: Added, path: tuple[str, ...]) -> None:
    """The statement that is analysed from here on has these, and searches these schemas in their order."""
    if added is not NOTHING or _current.get()[0] is not NOTHING:
        _current.set((added, path))


def functions_named(name: str, schema: str | None = None) -> tuple[Function, ...]:
    """The functions of that name: in `schema`, or those that the search path leads to, in its order."""
    added, path = _current.get()
    found = added.functions.get(name)
    if found is None:
        return ()
    wanted = path if schema is None else (schema,)
    return tuple(function for place in wanted for where, function in found if where == place)


def operators_named(name: str, schema: str | None = None) -> tuple[Operator, ...]:
    """The same for operators."""
    added, path = _current.get()
    found = added.operators.get(name)
    if found is None:
        return ()
    wanted = path if schema is None else (schema,)
    return tuple(operator for place in wanted for where, operator in found if where == place)


def schema_of(oid: int) -> str | None:
    """The schema of a function or operator that is not built in; None for one of pg_catalog."""
    return _current.get()[0].schemas.get(oid)
