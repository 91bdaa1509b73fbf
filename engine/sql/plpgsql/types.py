"""The types that declarations in a body name, as a catalog has them."""

from __future__ import annotations

from catalog.collations import DEFAULT, is_ascii, rules
from catalog.errors import SqlError, not_supported
from catalog.row_types import is_row_type
from catalog.types import lookup
from catalog.types.base import TypeRef
from catalog.types.composite import CompositeType
from engine.sql import ast
from engine.sql.analyze import Environment, resolve_type
from engine.sql.plpgsql.declarations import Declared


class CatalogTypes:
    """See `Types` in declarations.py."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def of_name(self, name: ast.TypeName) -> Declared:
        if name.names[-1] == "record" and not name.array_dimensions:
            return None
        try:
            found = resolve_type(name, self._environment)
        except SqlError as error:
            relation = None if name.array_dimensions else self._relation(name.names)
            if error.sqlstate not in ("42704", "0A000") or relation is None:
                raise
            return relation
        if is_row_type(found.oid) and not name.array_dimensions:
            return self._relation(name.names)
        return found

    def of_column(self, names: tuple[str, ...]) -> TypeRef:
        return resolve_type(ast.TypeName(names, percent_type=True), self._environment)

    def of_relation(self, names: tuple[str, ...]) -> Declared:
        found = self._relation(names)
        if found is None:
            raise SqlError("42P01", f'relation "{".".join(names)}" does not exist')
        return found

    def _relation(self, names: tuple[str, ...]) -> tuple[tuple[str, TypeRef], ...] | None:
        """The names and types of a relation's columns; None where there is none."""
        if len(names) > 2:
            return None
        relation = self._environment.find_relation(names[-2] if len(names) > 1 else None, names[-1])
        columns = getattr(relation, "columns", None)
        return None if columns is None else tuple((column.name, column.type) for column in columns)

    def check_collation(self, names: tuple[str, ...]) -> None:
        catalog, oid = self._environment.catalog, self._environment.find_collation(names).oid
        if rules(catalog, oid) is not None or is_ascii(catalog, oid) != is_ascii(catalog, DEFAULT):
            not_supported(f'a variable with the collation "{names[-1]}"')

    def is_composite(self, type_: TypeRef) -> bool:
        return isinstance(lookup(type_.oid), CompositeType)
