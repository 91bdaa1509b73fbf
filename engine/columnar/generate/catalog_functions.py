"""Functions that read virtual tables: format_type, pg_get_userbyid, obj_description, ...

A module registers, by prosrc, a function that makes the SQL of a call from the SQL of its arguments. This SQL refers to
virtual tables by `{v<oid>}`; the registration lists these tables, so that the engine sends them with the query.
Otherwise it is DuckDB's SQL: a scalar expression, or a sub-query in parentheses. If the output or input function of a
type is registered (`regclassout`, `regtypein`), casts to and from text, and results, use it for the type's values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from catalog import types
from catalog.duckdb.nodes import Sql, apply_template
from catalog.duckdb.templates import Template, parse_template
from catalog.schema import VirtualTable
from engine.columnar.generate.state import Generation, virtual_place
from engine.columnar.generate.udf import named_signature

_PLACEHOLDER = re.compile(r"\{\{v(\d+)\}\}")


@dataclass(frozen=True)
class CatalogFunction:
    """`sql` maps the arguments' SQL to the SQL of the call; `tables` are the virtual tables whose placeholders the SQL
    may use, `udfs` the sources of the functions that it calls by `catalog.functions.base.udf_name`."""

    sql: Callable[[list[str]], str]
    tables: tuple[VirtualTable, ...] = ()
    udfs: tuple[str, ...] = ()
    templates: dict[int, tuple[Template, list[VirtualTable]]] = field(default_factory=dict, compare=False, repr=False)

    def make(self, generation: Generation, arguments: list[Sql]) -> Sql:
        """Returns the SQL of a call, and registers its tables and UDFs in the generation."""
        for source in self.udfs:
            signature = named_signature(source)
            generation.functions[signature.name] = signature
        if len(arguments) not in self.templates:
            self.templates[len(arguments)] = self._template(len(arguments))
        template, tables = self.templates[len(arguments)]
        for table in tables:
            generation.table(table)
        return apply_template(template, arguments)

    def _template(self, count: int) -> tuple[Template, list[VirtualTable]]:
        """Returns the template that `sql` makes for `count` arguments, and the tables in it."""
        places = {table.oid: table for table in self.tables}
        named: list[VirtualTable] = []

        def place(found: re.Match[str]) -> str:
            named.append(places[int(found[1])])
            return virtual_place(named[-1].oid)

        text = self.sql([f"\x03{number}\x04" for number in range(count)]).replace("{", "{{").replace("}", "}}")
        text = _PLACEHOLDER.sub(place, text)
        return parse_template(text.replace("\x03", "{").replace("\x04", "}")), named


def codec(oid: int, direction: str) -> CatalogFunction | None:
    """Returns the registered output (`out`) or input (`in`) function of a type, or None."""
    row = types.pg_type_by_oid.get(oid)
    return catalog_functions.get(row.name + direction) if row is not None else None


catalog_functions: dict[str, CatalogFunction] = {}


def register_catalog_function(
    source: str,
    sql: Callable[[list[str]], str],
    tables: tuple[VirtualTable, ...] = (),
    udfs: tuple[str, ...] = (),
) -> None:
    """Registers the SQL of the function with this prosrc."""
    catalog_functions[source] = CatalogFunction(sql, tables, udfs)
