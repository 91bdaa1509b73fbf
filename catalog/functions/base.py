"""Functions, operators, casts and aggregates: PostgreSQL's declarations, and the implementations.

The declarations are data (catalog/data/pg_proc.tsv and its siblings): every built-in function of PostgreSQL can be
*resolved*, with PostgreSQL's own rules and OIDs. What can be *run* is keyed by `prosrc`, the internal name
('int4pl', 'textlen'), exactly as PostgreSQL's fmgr table is: an `Implementation` has up to two sides.

    python   takes internal-form values (catalog/types/base.py), gives one; never sees None if the function is strict
    duckdb   gives the SQL of the call for the columnar path, from the SQL of its arguments

A function with neither is refused by name (0A000). One with only `python` runs on the columnar path as a UDF around the
same Python function: slower, never different. `duckdb` is given only where DuckDB's result equals PostgreSQL's for
every argument, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from catalog.duckdb.nodes import Sql
from catalog.types.base import DEFAULT_FORMAT, FormatSettings, TypeRef


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
    leakproof: bool = False  # it tells nothing of its arguments
    reserved: bool = False  # PUBLIC may not execute it

    def __hash__(self) -> int:  # trees of calls are looked up in dictionaries while statements are planned
        return self.oid


class Trait(Enum):
    """What is known of a function beside what it gives. It is said where the function is implemented
    (`catalog.functions.registry.mark`), by its source; everybody else asks the registry (`has_trait`, `names_with`)."""

    __hash__ = object.__hash__  # every new statement asks for some, and Enum's own is written in Python

    # Where its statement runs, in a cluster.
    LEADER = auto()  # it draws from sequences, has an effect on others, or shows what only the leader knows
    SESSION_ONLY = auto()  # it has to do with nothing but the session, and the node that it is at
    ALL_TABLESPACES = auto()  # it has to do with every tablespace
    # What calling it does.
    NEVER_FAILS = auto()  # immutable, and gives a value for all arguments
    NEVER_LARGER = auto()  # the result is no larger than the arguments, which count already, or small in any case
    SLOW = auto()  # short arguments may take it for ever, and it keeps the interpreter
    CLOCK_OR_CHANCE = auto()  # volatile for the clock or chance alone: a worker may call it
    TRACELESS = auto()  # volatile, but leaves nothing behind when its statement is undone, but for a gap in a sequence
    # What it makes of its arguments.
    IGNORES_BLANKS = auto()  # at the end of its only argument; where it gives text, that is the argument without them
    COUNTS = auto()  # an aggregate that counts rows
    FRAMELESS = auto()  # a window function that looks at no frame
    GROWS_ARRAY = auto()  # an array of the elements of its arguments
    COMPARES_ROWS = auto()  # compares rows, or arrays that may be of rows
    WRITES_VALUES = auto()  # writes values of any type as text
    WRITES_JSON = auto()  # writes values of any type as json
    WRITES_ROW = auto()  # the same, and its first argument is a row
    WRITES_ARRAY = auto()  # the same, and its first argument is an array
    JOINS_AS_TEXT = auto()  # an operator between a text and a value of any type
    DEFINED_ROWS = auto()  # gives rows of the columns that a definition list tells
    POPULATED_ROWS = auto()  # gives rows of the type of its first argument
    # What a collation decides.
    COMPARES_TEXTS = auto()
    MAPS_CASE = auto()
    LIKE = auto()
    ILIKE = auto()
    REGULAR_EXPRESSION = auto()
    SEARCHES_TEXT = auto()
    ORDERS_TEXTS = auto()  # and nothing can take its place under a collation
    MATCHES_TEXTS = auto()  # the same of equality
    EXTREME_OF_TEXTS = auto()


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

    def __hash__(self) -> int:
        return self.oid


@dataclass(frozen=True, slots=True)
class Cast:
    """One row of pg_cast. context: i implicit, a assignment, e explicit. method: f function, i in/out, b binary."""

    source: int
    target: int
    function: int
    context: str
    method: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row of pg_aggregate. kind: n normal, o ordered-set, h hypothetical-set. `sort_operator` is the operator whose
    first row in its order is the aggregate's result (min, max), 0 if none."""

    function: int
    kind: str
    direct_arguments: int
    transition_function: int
    final_function: int
    sort_operator: int
    transition_type: int
    initial_value: str | None


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a stable or volatile function may ask of the statement that calls it.

    Handed as first argument to the python side of implementations marked `needs_context`.
    """

    statement_time: int  # timestamptz: microseconds since 2000-01-01 UTC
    transaction_time: int
    timezone: str
    session: object  # engine.session.Session: see engine/execute/context.py for the Protocol that functions may use
    format: FormatSettings = DEFAULT_FORMAT  # how values turn into text: concat(), format(), string output


Side = Callable[[Sequence[Sql], Sequence[TypeRef]], Sql | None]
"""What makes DuckDB SQL of a call, from its arguments and their types; None where only the UDF is exact."""
DuckSide = str | Side | None

AggregateSteps = tuple[Callable[..., object], Callable[..., object], Callable[..., object]]


def udf_name(source: str) -> str:
    """The name under which the worker registers the Python side of `source` as a UDF, for SQL that calls it."""
    return f"shoal_{source}"


@dataclass(frozen=True, slots=True)
class Implementation:
    """What runs a function. Both sides may rely on strictness being the caller's business: the python side of a strict
    function never sees None, and the DuckDB side gives NULL for NULL arguments.

    `python` takes internal forms. A set-returning function gives a list (or another iterable) of its rows: internal
    forms for one output column, tuples for several. A variadic function takes its last argument as an `Array`; one that
    is VARIADIC "any" (concat, format) takes the arguments as they are. `python_for_types` is for functions
    whose Python side depends on the actual types (polymorphic ones): given the types of the arguments and of the result
    it makes the callable, once, at planning; `python` is then None.

    `duckdb` receives the SQL of each argument (already of the DuckDB forms of the declared argument types) and gives
    SQL, as trees (catalog/duckdb). It is a template ('({0} + {1})'), or a callable for what a template cannot say: it
    is given the arguments and their types, and gives None where only the UDF is exact. A numeric argument's TypeRef has
    a numeric modifier if the argument is physically DECIMAL(p,s), and -1 if it is VARCHAR ("general numeric"); when the
    callable gives None, or there is none, numeric arguments go to the UDF as VARCHAR. `duckdb_result` says the physical
    type of the result from the same TypeRefs, and is asked only if `duckdb` gave SQL (default: the declared result
    type; for numeric that is VARCHAR); `duckdb_result_of` is the same where the arguments' SQL decides, too.
    `duckdb_udfs` are the sources of the UDFs that the SQL calls by `udf_name`.

    Aggregates: `duckdb` gives SQL in which every aggregate call has the marks DISTINCT_MARK, ORDER_MARK and FILTER_MARK
    (catalog/duckdb/templates.py): a caller replaces them by DISTINCT, ORDER BY and FILTER / OVER.
    `python_aggregate` is (state maker, step(state, *arguments) -> state, final(state)); a step is not called for rows
    with a NULL argument, unless `steps_see_nulls`. An ordered-set aggregate's steps are called in the order of its
    WITHIN GROUP, and its direct arguments are the arguments of the state maker. `aggregate_for_types` makes the three
    from the argument types (direct ones first) and the result type.

    `duckdb_in_utc` is a DuckDB side that holds only where the session's time zone is UTC: of functions between
    timestamptz and local time, whose Python side asks the context for the zone.

    `python_source` is a str.format template of a Python *expression* for code that inlines the call, with
    `python_names` the globals that it needs. It means the same as `python`.
    """

    python: Callable[..., object] | None = None
    duckdb: DuckSide = None
    needs_context: bool = False
    python_aggregate: AggregateSteps | None = None
    duckdb_result: Callable[[Sequence[TypeRef]], TypeRef] | None = None
    duckdb_udfs: tuple[str, ...] = ()
    python_for_types: Callable[[Sequence[TypeRef], TypeRef], Callable[..., object]] | None = None
    python_source: str | None = None
    python_names: Mapping[str, object] = field(default_factory=dict)
    aggregate_for_types: Callable[[Sequence[TypeRef], TypeRef], AggregateSteps] | None = None
    steps_see_nulls: bool = False
    needs_session: bool = False  # the context's session too, so that only the engine's side can run it
    duckdb_in_utc: DuckSide = None
    duckdb_result_of: Callable[[Sequence[Sql], Sequence[TypeRef]], TypeRef] | None = None
