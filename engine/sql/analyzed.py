"""The result of the analysis of a statement (tree.Analyzed)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.records import dataclass

if TYPE_CHECKING:
    from engine.sql.tree import Statement


@dataclass(frozen=True, slots=True)
class Analyzed:
    """The result of analysis: the statement, the types of its parameters, and its dependencies. `relations` are the
    OIDs of all relations that it reads or writes, including views, for locks, privileges and invalidation."""

    statement: Statement
    parameter_types: tuple[int, ...]
    relations: tuple[int, ...]
    written: tuple[int, ...] = ()
    table_oids: bool = False  # it uses the tableoid of a stored table
    declared_types: tuple[int, ...] = ()  # parameter_types with domains, if there are any, and not their base types
    collated: bool = False  # it depends on collations, so that collations.collate must run before planning
    outputs: tuple[int, ...] = ()  # after collate: the collations of the output columns, or 0
    literals: int = 0  # the number of parameters, from $1 on, that are literals of the text; none of them is NULL
