"""Functions, operators, casts and aggregates: what PostgreSQL declares, and what implements it here.

The declarations are data (catalog/data/pg_proc.tsv and its siblings): every built-in function of PostgreSQL can be
*resolved*, with PostgreSQL's own rules and OIDs. What can be *run* is keyed by `prosrc`, the internal name
('int4pl', 'textlen'), exactly as PostgreSQL's fmgr table is: an `Implementation` has up to two sides.

    python   takes internal-form values (catalog/types/base.py), gives one; never sees None if the function is strict
    duckdb   gives the SQL of the call for the columnar path, from the SQL of its arguments

A function with neither is refused by name (0A000). One with only `python` runs on the columnar path as a UDF around the
same Python function: slower, never different. `duckdb` is given only where DuckDB's result equals PostgreSQL's for every
argument, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalog.types.base import TypeRef


@dataclass(frozen=True, slots=True)
class Function:
    """One row of pg_proc."""

    oid: int
    name: str
    source: str  # prosrc: the key into the implementations
    kind: str  # f function, a aggregate, w window, p procedure
    strict: bool
    returns_set: bool
    volatility: str  # i immutable, s stable, v volatile
    argument_types: tuple[int, ...]  # input arguments only
    result_type: int
    variadic: int  # element type OID, 0 if none
    default_count: int
    argument_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()  # OUT columns of a record-returning function
    output_types: tuple[int, ...] = ()
    defaults: tuple[str, ...] = ()  # SQL text of the trailing default arguments
    language: str = "internal"  # internal, sql: sql ones are implemented under their name as source
    cost: float = 1.0
    rows: float = 0.0


@dataclass(frozen=True, slots=True)
class Operator:
    """One row of pg_operator. `left` is 0 for a prefix operator."""

    oid: int
    name: str
    left: int
    right: int
    result: int
    function: int  # OID
    commutator: int = 0
    negator: int = 0


@dataclass(frozen=True, slots=True)
class Cast:
    """One row of pg_cast. context: i implicit, a assignment, e explicit. method: f function, i in/out, b binary."""

    source: int
    target: int
    function: int
    context: str
    method: str


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a stable or volatile function may ask of the statement that calls it.

    Handed as first argument to the python side of implementations marked `needs_context`.
    """

    statement_time: int  # timestamptz: microseconds since 2000-01-01 UTC
    transaction_time: int
    timezone: str
    session: object  # engine.session.Session: see engine/execute/context.py for the Protocol that functions may use


@dataclass(frozen=True, slots=True)
class Implementation:
    """What runs a function. `duckdb` receives the SQL of each argument (already of the declared argument types' DuckDB
    forms) and gives SQL; it is a str.format template ('({0} + {1})') or a callable for what a template cannot say.

    `duckdb_total` says that the SQL gives NULL for NULL arguments by itself and raises PostgreSQL's errors itself.
    Aggregates: `duckdb` gives the aggregate call; `python_aggregate` is (initial state maker, step, final).
    """

    python: Callable[..., object] | None = None
    duckdb: str | Callable[[Sequence[str], Sequence[TypeRef]], str] | None = None
    needs_context: bool = False
    python_aggregate: tuple[Callable[[], object], Callable[..., object], Callable[[object], object]] | None = None
