"""The state of the analysis of one query level (PostgreSQL's ParseState), and the state that all levels of a statement
share.

A `Namespace` item is one name that can qualify columns. For each column it has the expression: a Var of a base entry,
or for a column of a join the Var of the table that the column comes from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from catalog.schema import Domain, Source
from catalog.types.base import TypeRef
from catalog.types.oids import UNKNOWN
from engine.sql import ast, tree
from engine.sql.analyze.environment import Environment
from engine.sql.analyze.errors import fail
from engine.sql.analyze.typeinfo import type_name

if TYPE_CHECKING:
    from engine.sql.analyze.updatable import ViewTarget


class ParameterNames(Protocol):
    """The names that stand for parameters in a text: of the arguments of a function, or of variables."""

    conflict: str
    """What a name means that is also a column: use_column | use_variable | error."""

    def number_of(self, names: tuple[str, ...], shared: Shared) -> int:
        """The number of the parameter for a column reference, or 0."""

    def fields_of(self, names: tuple[str, ...], shared: Shared) -> tuple[bool, tuple[tuple[str, int], ...]] | None:
        """For the name of a record: whether it has a value, and the names of its fields with their parameters. None for
        any other name."""


class RoutineNames:
    """The names for arguments in the body of a function: their names, also qualified with the function's name."""

    __slots__ = ("arguments", "function")
    conflict = "use_column"

    def __init__(self, function: str, arguments: tuple[str, ...]) -> None:
        self.function = function
        self.arguments = arguments

    def fields_of(self, names: tuple[str, ...], shared: Shared) -> tuple[bool, tuple[tuple[str, int], ...]] | None:
        """See ParameterNames."""
        return None

    def number_of(self, names: tuple[str, ...], shared: Shared) -> int:
        """The number of the parameter for a column reference, or 0."""
        if len(names) == 2 and names[0] != self.function:
            return 0
        if len(names) > 2 or not names[-1]:
            return 0
        return self.arguments.index(names[-1]) + 1 if names[-1] in self.arguments else 0


class Shared:
    """The state of the whole statement: environment, parameters, relations."""

    __slots__ = (
        "collated", "domain_value", "domains", "environment", "literals", "locked", "parameters", "recorded",
        "relations", "routine", "sources", "table_oids", "unresolved", "written",
    )  # fmt: skip

    def __init__(self, environment: Environment, parameters: Iterable[int]) -> None:
        self.environment = environment
        self.parameters = dict(enumerate(parameters, 1))
        self.literals = {number for number, oid in self.parameters.items() if oid == UNKNOWN}
        self.domains: dict[int, TypeRef] = {}  # of the parameters that are of domains: the type with its domain
        self.unresolved = 0  # Params made while their type was unknown, less those resolved since
        self.relations: dict[int, None] = {}
        self.written: dict[int, None] = {}
        self.locked: dict[int, None] = {}  # by FOR UPDATE and similar clauses
        self.table_oids = False
        self.collated = False  # COLLATE occurs
        self.domain_value: tree.Expr | None = None  # the expression for VALUE in a domain's condition
        self.routine: ParameterNames | None = None  # of the function whose body is analysed
        self.sources: dict[int, Source] = {}  # of the stored text that is analysed, by location
        self.recorded: list[Source] | None = None  # those of a text that is about to be stored

    def parameter(self, number: int, location: int) -> tree.Param:
        """The Param of $number with the type known so far."""
        if not 1 <= number <= 65535:
            fail("42P02", f"there is no parameter ${number}", location)
        oid = self.parameters.setdefault(number, UNKNOWN) or UNKNOWN
        if oid == UNKNOWN:
            self.unresolved += 1
            self.parameters[number] = UNKNOWN
        return tree.Param(number, TypeRef(oid))

    def resolve_parameter(self, param: tree.Param, target: TypeRef, location: int) -> tree.Param:
        """Sets the type of a parameter of unknown type from its context (42P08 if two contexts disagree)."""
        known = self.get_declared(param.number)
        is_domain = self.takes_domain(param, target)
        wanted = target.domain if is_domain else target.oid
        if known == UNKNOWN:
            self.parameters[param.number] = target.oid
            if is_domain:
                self.domains[param.number] = target
        elif known != wanted:
            fail(
                "42P08",
                f"inconsistent types deduced for parameter ${param.number}",
                location,
                detail=f"{type_name(known)} versus {type_name(wanted)}",
            )
        self.unresolved -= 1
        return tree.Param(param.number, TypeRef(target.oid))

    def takes_domain(self, param: tree.Param, target: TypeRef) -> bool:
        """Whether a parameter of unknown type gets the domain of the target. A literal gets the base type."""
        is_domain = target.domain and isinstance(self.environment.catalog.get(target.domain), Domain)
        return bool(is_domain) and param.number not in self.literals

    def get_declared(self, number: int) -> int:
        """The type of $number for clients: the domain, if it has one."""
        return self.domains[number].domain if number in self.domains else self.parameters.get(number, UNKNOWN)


def positions(names: list[str]) -> dict[str, int]:
    """The position of each name, -1 for one that occurs more than once."""
    found: dict[str, int] = {}
    for position, name in enumerate(names):
        found[name] = -1 if name in found else position
    return found


class NamespaceItem:
    """One entry of a query level's namespace."""

    __slots__ = (
        "_by_name", "_expressions", "alias", "columns_visible", "entry", "index", "lateral_ok", "lateral_only", "names",
        "origins", "table_visible", "using", "view",
    )  # fmt: skip

    def __init__(
        self,
        alias: str,
        index: int,
        entry: tree.RangeEntry | None,
        names: list[str],
        expressions: list[tree.Expr],
        origins: list[tuple[int, int]] | None = None,
        by_name: dict[str, int] | None = None,
    ) -> None:
        """The lists may be shared, so they are never changed."""
        self.alias = alias
        self.index = index
        self.entry = entry
        self.names = names
        self._expressions = expressions
        self.origins = origins
        self.table_visible = True
        self.columns_visible = True
        self.lateral_only = False
        self.lateral_ok = True
        self.using: set[str] = set()
        self.view: ViewTarget | None = None  # set for the target of a change that is a view
        self._by_name = by_name

    @property
    def by_name(self) -> dict[str, int]:
        """The position of each column, or -1 for an ambiguous name."""
        found = self._by_name
        if found is None:
            found = self._by_name = positions(self.names)
        return found

    def read(self, position: int) -> tree.Expr:
        """The expression of a column that is read. In the view that a statement changes, it records the column as read,
        because reads of the base table need more privileges than reads of the view."""
        if self.view is not None:
            self.view.reads((position,))
        return self._expressions[position]

    def read_all(self) -> list[tree.Expr]:
        """The values of all columns, as `read` gives one."""
        if self.view is not None:
            self.view.reads(range(len(self._expressions)))
        return self._expressions

    def origin(self, position: int) -> tuple[int, int]:
        """(table OID, attnum) of a column, (0, 0) when it is computed."""
        return self.origins[position] if self.origins is not None else (0, 0)


class State:
    """One query level."""

    __slots__ = (
        "aggregates", "ctes", "depth", "entries", "future_ctes", "grouping_calls", "kind", "lateral", "names",
        "namespace", "nullable", "parent", "recursive_names", "recursive_self", "set_calls", "set_location", "shared",
        "target", "volatile", "window_calls", "windows",
    )  # fmt: skip

    def __init__(self, shared: Shared, parent: State | None = None) -> None:
        self.shared = shared
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.entries: list[tree.RangeEntry] = []
        self.nullable: set[int] = set()  # entries whose rows an outer join may make up
        self.names: list[NamespaceItem] = []  # one per base entry, for error hints and whole rows
        self.namespace: list[NamespaceItem] = []
        self.ctes: dict[str, tree.Cte] = {}
        self.future_ctes: dict[str, ast.CommonTableExpr] = {}
        self.recursive_names: dict[str, tuple[str, ...]] = {}
        self.recursive_self: dict[str, tuple[tree.RangeColumn, ...]] = {}
        self.kind = ""  # what is being analysed: 'where', 'select', ... for placement errors
        self.lateral = False  # whether FROM items to the left are visible
        self.target: NamespaceItem | None = None  # the table that the statement changes
        self.aggregates = False
        self.set_calls = 0  # set-returning calls met so far
        self.set_location = -1  # where the last of them is
        self.volatile = False
        self.windows: list[ast.WindowDef] = []
        self.window_calls = False
        self.grouping_calls = False

    @property
    def environment(self) -> Environment:
        return self.shared.environment

    def add(self, entry: tree.RangeEntry) -> int:
        """Appends an entry to the range table and gives its index."""
        self.entries.append(entry)
        return len(self.entries) - 1

    def up(self, levels: int) -> State:
        """The state `levels` levels out."""
        state = self
        for _ in range(levels):
            assert state.parent is not None
            state = state.parent
        return state
