"""Composes the content of system relations.

A relation's content is a list of parts. A part is a function from a list of items to columns. Its `scope` declares its
dependencies, and so how long its result may be cached:

    fixed      built-in types, functions, operators, which are the same in every server of this release
    catalog    the schema objects
    session    the schema objects, and this session's search path and user (names without schema, definitions,
               privileges)
    live       the running node: sessions, locks, settings; computed for each query

Items are tuples that begin with a schema object. They are divided into slices by the object's OID. A slice's columns
are computed again only if one of its items has changed (by value, so an item contains everything on which its row
depends): after a DDL statement one slice of pg_attribute is computed, not fifty thousand rows.

A part returns columns by name: a list with one value for each item, or a constant for all items. Missing columns are
NULL, or the type's zero if the column is NOT NULL. Values are in internal form (catalog/types/base.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from catalog import types
from catalog.catalog import Catalog
from catalog.rewrite_rules import RewriteRule
from catalog.schema import Index, Role, Routine, Schema, Table, View, VirtualTable
from catalog.schema import Sequence as SequenceObject
from catalog.system.relations import system_relations
from catalog.types.base import EMPTY_ARRAY

Columns = Mapping[str, object]
Item = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a part, one for each object of the classes `kinds`; `make` returns None for an object without rows.

    A call with a catalog returns all items; `of` returns that of an object, `count` the largest possible number.
    """

    kinds: tuple[type, ...]
    make: Callable[[Catalog, Any], Item | None]

    def __call__(self, catalog: Catalog) -> list[Item]:
        found = [item for kind in self.kinds for item in catalog.by_kind.get(kind, ())]
        if len(self.kinds) > 1:
            found.sort(key=lambda item: item.oid)
        made = (self.make(catalog, item) for item in found)
        return [item for item in made if item is not None]

    def count(self, catalog: Catalog) -> int:
        return sum(len(catalog.by_kind.get(kind, ())) for kind in self.kinds)

    def of(self, catalog: Catalog, oid: int) -> Item | None:
        """Returns the item of the object with this OID; None if there is none."""
        found = catalog.objects.get(oid)
        if type(found) not in self.kinds:
            return None
        schema = found if isinstance(found, Schema) else catalog.objects.get(getattr(found, "schema", 0))
        if isinstance(schema, Schema) and schema.database not in (0, catalog.database):
            return None
        return self.make(catalog, found)


@dataclass(frozen=True, slots=True)
class StatementRow:
    """The row of one statement in pg_stat_statements. Times are in milliseconds. `readable`: the session's user may
    read it."""

    user: int
    database: int
    queryid: int
    text: str
    calls: int
    total: float
    least: float
    most: float
    mean: float
    deviation: float
    rows: int
    readable: bool


class Live(Protocol):
    """The state of the running node (engine/system_views/live.py). Times are timestamptz in internal form."""

    def settings(self) -> list[dict[str, object]]: ...
    def file_settings(self) -> list[dict[str, object]]: ...
    def host_rules(self) -> list[dict[str, object]]: ...
    def shown_settings(self) -> list[tuple[str, str]]: ...
    def activity(self) -> list[dict[str, object]]: ...
    def encryption(self) -> list[dict[str, object]]: ...
    def locks(self) -> list[dict[str, object]]: ...
    def large_objects(self) -> list[dict[str, object]]: ...
    def cursors(self) -> list[dict[str, object]]: ...
    def prepared_statements(self) -> list[dict[str, object]]: ...
    def prepared_transactions(self) -> list[dict[str, object]]: ...
    def timezones(self) -> list[dict[str, object]]: ...
    def databases(self) -> list[dict[str, object]]: ...
    def copies(self) -> list[dict[str, object]]: ...
    def sequence_values(self) -> list[tuple[int, int | None]]: ...
    def relation_sizes(self) -> list[tuple[int, int | None, int]]: ...
    def function_counts(self) -> list[tuple[object, ...]]:
        """Returns (OID, calls, total and own milliseconds, the same three of the present transaction) of the functions
        that were called, as far as they are counted."""

    def table_counts(self) -> list[tuple[int, int, int, int, int]]: ...
    def database_sizes(self) -> list[tuple[int, str, int | None]]: ...
    def tablespace_sizes(self) -> list[tuple[int, str, int]]: ...
    def get_start(self) -> int: ...
    def notification_pages(self) -> int: ...
    def cluster(self, view: str) -> list[dict[str, object]]: ...
    def statements(self) -> list[StatementRow]: ...
    def statements_info(self) -> tuple[int, int]:
        """Returns how often statements were dropped to make room, and the start of the statistics."""

    def reset_statements(self, user: int, database: int, queryid: int) -> None: ...


class Surroundings(Protocol):
    """The context of content. `path` has the OIDs of the schemas in the search path, including pg_catalog."""

    catalog: Catalog
    path: tuple[int, ...]
    user: Role | None
    temporary_schema: str
    live: Live

    def expression(self, text: str, table: Table | None, pretty: bool) -> str:
        """Returns a stored expression as pg_get_expr does in this session."""

    def condition(self, text: str, relation: Table | View, pretty: bool) -> str:
        """Returns the condition of a trigger as its definition shows it."""

    def rule(self, relation: Table | View, rule: RewriteRule, pretty: bool) -> str:
        """Returns the CREATE RULE statement of a rule."""

    def rule_of_view(self, view: View | Table, pretty: bool) -> str:
        """Returns the same of the rule that makes a relation a view."""

    def is_call(self, text: str, table: Table) -> bool:
        """Whether the expression is printed as a function call, which needs no parentheses in an index definition."""

    def expression_name(self, text: str) -> str:
        """Returns the name of an index column for the expression: 'lower', 'expr'."""

    def view(self, view: View | Table, pretty: bool) -> str:
        """Returns a view's query as pg_get_viewdef does in this session, with the semicolon."""

    def updatable(self, view: View) -> tuple[int, dict[int, int]]:
        """Returns the possible changes of a view, as a bit mask and by column (engine/sql/analyze/updatable.py)."""

    def references(self, item: View | Table | Routine) -> Sequence[tuple[int, int, int]]:
        """Returns (catalog, object, column) of the objects to which a view's query or a routine's SQL body refers."""

    def body(self, routine: Routine) -> Sequence[str]:
        """Returns the statements of a routine's SQL body, as definitions show them in this session."""

    def expression_references(self, text: str, table: Table) -> Sequence[tuple[int, int, int]]:
        """Returns the same as `references` for an expression over a table."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a relation. `items` None: a fixed or live part without items; its function gets an empty list. `find`:
    for a fixed part with very many rows, returns the rows with a value in a column: (name of the column, value)."""

    relation: VirtualTable
    scope: str  # fixed | catalog | session | live
    items: Callable[[Catalog], list[Item]] | None
    columns: Callable[[list[Item], Surroundings], Columns]
    find: Callable[[str, object], list[tuple[Any, ...]]] | None = None


parts: dict[int, list[Part]] = defaultdict(list)


def system_table(name: str) -> VirtualTable:
    """Returns the table of pg_catalog with this name."""
    found = system_relations()[11, name]
    assert isinstance(found, VirtualTable), name
    return found


def content(
    relation: str | VirtualTable,
    scope: str,
    items: Callable[[Catalog], list[Item]] | None = None,
    find: Callable[[str, object], list[tuple[Any, ...]]] | None = None,
) -> Callable[[Callable[[list[Item], Surroundings], Columns]], Callable[[list[Item], Surroundings], Columns]]:
    """Decorator: registers the function as a part of the relation."""
    table = system_table(relation) if isinstance(relation, str) else relation

    def register(
        function: Callable[[list[Item], Surroundings], Columns],
    ) -> Callable[[list[Item], Surroundings], Columns]:
        parts[table.oid].append(Part(table, scope, items, function, find))
        return function

    return register


def of_rows(rows: Sequence[Mapping[str, object]]) -> Columns:
    """Converts rows, which are dictionaries, to columns; missing keys are NULL."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return {name: [row.get(name) for row in rows] for name in names}


_ZEROS: dict[str, object] = {"N": 0, "B": False, "S": "", "Z": "", "A": EMPTY_ARRAY}


def complete(relation: VirtualTable, columns: Columns, count: int) -> list[object]:
    """Returns a list or a constant for every column of the relation, in its order. Raises KeyError for an unknown
    name."""
    given = dict(columns)
    found = []
    for column in relation.columns:
        if column.name in given:
            value = given.pop(column.name)
            assert not isinstance(value, list) or len(value) == count, (relation.name, column.name)
        elif column.not_null:
            value = _ZEROS.get(types.lookup(column.type.oid).category, 0)
        else:
            value = None
        found.append(value)
    if given:
        raise KeyError(f"{relation.name} has no column {', '.join(given)}")
    return found


def row_count(columns: Columns) -> int:
    """Returns the number of rows of columns without items: the length of their lists; one if all are constants."""
    return next((len(value) for value in columns.values() if isinstance(value, list)), 1 if columns else 0)


# ---- rows that many kinds of objects have alike ---------------------------------------------------------------------

Dependency = tuple[int, int, int, int, int, int, str]
"""A row of pg_depend: (catalog, OID, column) of the object and of what it refers to, and the kind of dependency."""


def dependency_columns(rows: Sequence[Dependency]) -> Columns:
    """Returns the columns of rows of pg_depend."""
    names = ("classid", "objid", "objsubid", "refclassid", "refobjid", "refobjsubid", "deptype")
    return {name: [row[position] for row in rows] for position, name in enumerate(names)}


def comment_columns(kind: int, objects: Iterable[Any]) -> Columns:
    """Returns the columns of rows of pg_description, for the objects of one catalog (`kind`) that have a comment."""
    found = [item for item in objects if item.comment is not None]
    return {
        "objoid": [item.oid for item in found],
        "classoid": kind,
        "objsubid": 0,
        "description": [item.comment for item in found],
    }


# ---- objects --------------------------------------------------------------------------------------------------------


def objects_of(*kinds: type) -> Items:
    """Returns items of one object: the relations of these classes in the catalog's own database."""
    return Items(kinds, lambda _, item: (item,))


def shared_objects(kind: type) -> Items:
    """Returns items of one object: roles, databases, tablespaces, and the schemas of the catalog's own database."""
    return Items((kind,), lambda _, item: (item,))


tables = objects_of(Table)
views = objects_of(View)
sequences = objects_of(SequenceObject)
tables_and_views = objects_of(Table, View)
indexes = Items((Index,), lambda catalog, index: (index, catalog.table(index.table)))  # (index, its table)
