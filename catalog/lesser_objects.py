"""Schema objects that refer to others by OIDs only; catalog/schema.py has all kinds of schema objects."""

from __future__ import annotations

from dataclasses import dataclass

BOOTSTRAP_ROLE_OID = 10  # postgres


@dataclass(frozen=True, slots=True)
class UserRange:
    """CREATE TYPE ... AS RANGE. `subtype` is the type of its bounds, which `operator_class` and `collation` (0: none)
    compare. `difference`: the function in subtype_diff, which is kept and not used; 0
    for none. `multirange`: its multirange type, a `UserMultirange`. Its constructors are `Routine`s in the language
    internal, whose result it is."""

    oid: int
    schema: int
    name: str
    array_oid: int
    subtype: int
    multirange: int
    operator_class: int
    collation: int = 0
    difference: int = 0
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class UserMultirange:
    """The multirange type of a `UserRange`, which has the OID `range`."""

    oid: int
    schema: int
    name: str
    array_oid: int
    range: int
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None
    acl: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StatisticsObject:
    """CREATE STATISTICS of the columns with these numbers, in ascending order, and of expressions (texts) of a table.
    `kinds`: d ndistinct, f dependencies, m mcv, e expressions. Nothing is computed for them."""

    oid: int
    schema: int
    name: str
    table: int
    columns: tuple[int, ...]
    expressions: tuple[str, ...] = ()
    expression_columns: tuple[int, ...] = ()  # which the expressions use
    kinds: str = ""
    statistics_target: int = -1
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ExtensionType:
    """A type of an extension, found by its name."""

    oid: int
    array_oid: int
    name: str
    schema: int


@dataclass(frozen=True, slots=True)
class UserOperator:
    """CREATE OPERATOR. `left` and `right` are types, 0: no operand. `function` 0: only another operator's COMMUTATOR or
    NEGATOR has named it until now. Functions and operators are OIDs, 0: none."""

    oid: int
    schema: int
    name: str
    left: int
    right: int
    result: int = 0
    function: int = 0
    commutator: int = 0
    negator: int = 0
    restrict: int = 0
    join: int = 0
    hashes: bool = False
    merges: bool = False
    owner: int = BOOTSTRAP_ROLE_OID
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class UserCast:
    """CREATE CAST in a database. `source` and `target` are types, `function` is an OID (0: none). `context` and
    `method` are as in pg_cast: implicit, assignment, explicit; function, input and output."""

    oid: int
    database: int
    source: int
    target: int
    function: int = 0
    context: str = "e"
    method: str = "f"
    comment: str | None = None

    @property
    def name(self) -> str:
        """The OIDs of its types, because a cast has no name."""
        return f"{self.source} {self.target}"
