"""Parts of an analysed tree (tree.py) that are not nodes: they contain no expressions, so walks (tree_walk.py) skip
them."""

from __future__ import annotations

from catalog.records import dataclass
from catalog.schema import Table
from catalog.types.base import TypeRef


@dataclass(frozen=True, slots=True)
class RangeColumn:
    """`collation`: its OID from a column definition list, or 0 for the collation of the type or the query."""

    name: str
    type: TypeRef
    collation: int = 0


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The columns that have the key of a table's row: its primary key, or its hidden row number."""

    table: Table
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowMark:
    """FOR UPDATE, FOR SHARE and similar clauses on one range table entry.

    `from_outer`: of an outer query, whose clause holds for the tables of its sub-queries and views too. `members`: the
    tables that the entry stands for after the expansion of tables with members; their OIDs are in `table_column`.
    """

    relation: int
    strength: str  # update | no key update | share | key share
    wait: str  # block | skip locked | nowait
    from_outer: bool = False
    members: tuple[RowPlace, ...] = ()
    table_column: int = 0


@dataclass(frozen=True, slots=True)
class SearchClause:
    breadth: bool
    columns: tuple[str, ...]
    sequence: str


@dataclass(frozen=True, slots=True)
class ViewUse:
    """A view through which a statement changes a table: the numbers of its columns that are read, inserted into and
    updated, and of the columns of its base relation that its query names (`referred`)."""

    oid: int
    read: tuple[int, ...]
    inserted: tuple[int, ...]
    updated: tuple[int, ...]
    referred: tuple[int, ...]
