"""Functions and operators of a database's extensions, which are not built in.

They are resolved by name in the schemas of the search path, which includes pg_catalog, or in the schema of a qualified
name. Resolution has no access to the catalog, and must be fast for databases without extensions. So a context variable
holds the functions and operators of the running statement's catalog, as another one holds its types
(catalog/types/user.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.identifiers import quote_identifier

if TYPE_CHECKING:
    from catalog.functions.base import Cast, Function, Operator
    from catalog.text_search.objects import (
        TextSearchObject,
    )


@dataclass(frozen=True, slots=True)
class Added:
    """The added functions and operators of a catalog, by name: (name of the schema, object). `schemas` maps their OIDs
    to names of schemas. `dictionaries` and `configurations`: those for text search, by OID: (name of the schema, name).
    `text_search`: the definitions of users, by OID."""

    functions: Mapping[str, Sequence[tuple[str, Function]]] = field(default_factory=dict)
    operators: Mapping[str, Sequence[tuple[str, Operator]]] = field(default_factory=dict)
    schemas: Mapping[int, str] = field(default_factory=dict)
    dictionaries: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    configurations: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    text_search: Mapping[int, TextSearchObject] = field(default_factory=dict)
    by_oid: Mapping[int, Function] = field(default_factory=dict)  # functions of users
    casts: Mapping[tuple[int, int], Cast] = field(default_factory=dict)  # by the OIDs of their types
    derived: dict[str, object] = field(default_factory=dict, compare=False)  # by users of these
    between_built_in: bool = False  # whether one of the casts is between two types that are built in


NOTHING = Added()
Here = tuple[Added, tuple[str, ...]]
"""The added objects of a statement, and its search path including pg_catalog."""
_current: ContextVar[Here] = ContextVar("added", default=(NOTHING, ()))


def use(added: Added, path: tuple[str, ...]) -> None:
    """Sets the added functions and operators, and the search path including pg_catalog, of the statement that is
    analysed next."""
    if added is not NOTHING or _current.get()[0] is not NOTHING:
        _current.set((added, path))


def current() -> tuple[Added, tuple[str, ...]]:
    """Returns the added functions and operators, and the search path, of the current statement."""
    return _current.get()


def restore(found: tuple[Added, tuple[str, ...]]) -> None:
    """Restores an earlier result of `current`."""
    _current.set(found)


def searched_functions(name: str, built_in: Sequence[Function]) -> list[tuple[int, Function]]:
    """Returns all functions of this name in the search path, each with the position of its schema in the path. As in
    FuncnameGetCandidates, an unqualified name never refers to a function in a temporary schema."""
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
    """Whether any schema has an added function of this name."""
    return name in _current.get()[0].functions


def functions_named(name: str, schema: str) -> tuple[Function, ...]:
    """Returns the added functions of this name in a schema."""
    added, path = _current.get()
    wanted = _schema_called(schema, path)
    return tuple(function for where, function in added.functions.get(name, ()) if where == wanted)


def operators_named(name: str, schema: str | None = None) -> tuple[Operator, ...]:
    """Returns the added operators of this name in a schema, or in the search path."""
    added, path = _current.get()
    found = added.operators.get(name)
    if found is None:
        return ()
    wanted = path if schema is None else (_schema_called(schema, path),)
    return tuple(operator for place in wanted for where, operator in found if where == place)


def dictionary_named(name: str, schemas: Sequence[str], here: Here | None = None) -> int | None:
    """Returns the OID of an added text search dictionary in these schemas, or in the search path if there are none.
    `here`: the result of `current` at an earlier time."""
    added, path = here or _current.get()
    return _first_named(added.dictionaries, name, schemas or path)


def configuration_named(name: str, schemas: Sequence[str], here: Here | None = None) -> int | None:
    """Returns the OID of a user's text search configuration in these schemas, or in the search path if there are
    none."""
    added, path = here or _current.get()
    return _first_named(added.configurations, name, schemas or path)


def _first_named(known: Mapping[int, tuple[str, str]], name: str, schemas: Sequence[str]) -> int | None:
    if not known:
        return None
    by_name = {place: oid for oid, place in known.items()}
    return next((by_name[schema, name] for schema in schemas if (schema, name) in by_name), None)


def dictionary_name(oid: int, here: Here | None = None) -> str | None:
    """Returns the name of an added text search dictionary, with its schema if that is not in the search path."""
    added, path = here or _current.get()
    return _name_of(added.dictionaries, oid, path)


def configuration_name(oid: int, here: Here | None = None) -> str | None:
    """Returns the name of a user's text search configuration, with its schema if that is not in the search path."""
    added, path = here or _current.get()
    return _name_of(added.configurations, oid, path)


def _name_of(known: Mapping[int, tuple[str, str]], oid: int, path: Sequence[str]) -> str | None:
    found = known.get(oid)
    if found is None:
        return None
    schema, name = found
    if _first_named(known, name, path) == oid:
        return quote_identifier(name)
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"


def cast_between(source: int, target: int) -> Cast | None:
    """Returns the cast of a user between two types; None if there is none."""
    return _current.get()[0].casts.get((source, target))


def has_casts_of_built_in_types() -> bool:
    """Whether users have made casts between types that are built in."""
    return _current.get()[0].between_built_in


def function_of_user(oid: int) -> Function | None:
    """Returns the function of a user with this OID; None if there is none."""
    return _current.get()[0].by_oid.get(oid)


def _schema_called(name: str, path: tuple[str, ...]) -> str:
    """Returns the full name of a schema: pg_temp is the temporary schema of the session, which its path contains."""
    if name != "pg_temp":
        return name
    return next((schema for schema in path if schema.startswith("pg_temp_")), name)


def schema_of(oid: int) -> str | None:
    """Returns the schema of an added function or operator; None for one of pg_catalog."""
    return _current.get()[0].schemas.get(oid)
