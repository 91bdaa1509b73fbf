"""Functions and operators that are not built in: those of the extensions of a database.

They are found by name in the schemas that the search path leads to, pg_catalog in its place among them, or in the one
that was named.
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
    """The statement that is analysed from here on has these, and searches these schemas, pg_catalog among them, in
    their order."""
    if added is not NOTHING or _current.get()[0] is not NOTHING:
        _current.set((added, path))


def current() -> tuple[Added, tuple[str, ...]]:
    """What the statement that is being analysed has, and its path."""
    return _current.get()


def restore(found: tuple[Added, tuple[str, ...]]) -> None:
    """What `current` has given is so again."""
    _current.set(found)


def searched_functions(name: str, built_in: Sequence[Function]) -> list[tuple[int, Function]]:
    """All functions of that name that the search path leads to, each with its schema's place in it. Those of temporary
    schemas are never meant by a bare name (FuncnameGetCandidates)."""
    added, path = _current.get()
    here = added.functions.get(name)
    if here is None:
        return [(0, function) for function in built_in]
    found: list[tuple[int, Function]] = []
    for place, schema in enumerate(path):
        if schema == "pg_catalog":
            found += [(place, function) for function in built_in]
        elif not schema.startswith("pg_temp_"):
            found += [(place, function) for where, function in here if where == schema]
    return found


def has_functions_named(name: str) -> bool:
    """Whether a function of that name, in whatever schema, is not built in."""
    return name in _current.get()[0].functions


def functions_named(name: str, schema: str) -> tuple[Function, ...]:
    """The functions of that name in a schema."""
    return tuple(function for where, function in _current.get()[0].functions.get(name, ()) if where == schema)


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
