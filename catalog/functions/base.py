"""Functions, operators, casts and aggregates: PostgreSQL's declarations, and the implementations.

The declarations are data (catalog/data/pg_proc.tsv and similar files): every built-in function of PostgreSQL can be
*resolved*, by PostgreSQL's rules and with PostgreSQL's OIDs. The key of an `Implementation` is `prosrc`, the internal
name ('int4pl', 'textlen'), as in PostgreSQL's fmgr table. An implementation has up to two sides:

    python   takes and returns internal-form values (catalog/types/base.py); never gets None if the function is strict
    duckdb   returns the SQL of the call for the columnar path, from the SQL of its arguments

A call of a function with neither side raises 0A000 with the function's name. A function with only `python` runs on the
columnar path as a UDF that calls the same Python function, more slowly. A function has `duckdb` only if DuckDB's result
equals PostgreSQL's for every argument, including errors.
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
    language: str = "internal"  # internal or sql; the key of an sql function's implementation is its name
    cost: float = 1.0
    rows: float = 0.0
    leakproof: bool = False  # it reveals nothing of its arguments
    reserved: bool = False  # PUBLIC has no EXECUTE privilege
    aggregate: Aggregate | None = None  # of a user-defined aggregate; the registry has those of built-in ones

    def __hash__(self) -> int:  # planning uses trees of calls as keys of dictionaries
        return self.oid


class Trait(Enum):
    """A property of a function. The module that implements the function declares its traits by source
    (`catalog.functions.registry.mark`); others read them from the registry (`has_trait`, `names_with`)."""

    __hash__ = object.__hash__  # used for every new statement; Enum's own is slow, because it is written in Python

    # The node that runs its statement, in a cluster.
    LEADER = auto()  # uses sequences, has effects outside of the session, or returns information of the leader only
    SESSION_ONLY = auto()  # uses only the session and its node
    ALL_TABLESPACES = auto()  # uses every tablespace
    # Effects and costs of a call.
    NEVER_FAILS = auto()  # immutable, and raises no error for any arguments
    NEVER_LARGER = auto()  # the result is not larger than the arguments, whose memory is counted, or always small
    SLOW = auto()  # may run for ever on short arguments, and holds the interpreter lock
    CLOCK_OR_CHANCE = auto()  # volatile only because of the clock or random numbers: a worker may call it
    TRACELESS = auto()  # volatile, but a rollback of its statement undoes all but a gap in a sequence
    # The result.
    IGNORES_BLANKS = auto()  # ignores trailing blanks of its only argument; a text result is the argument without them
    COUNTS = auto()  # an aggregate that counts rows
    FRAMELESS = auto()  # a window function that ignores the frame
    GROWS_ARRAY = auto()  # an array of the elements of its arguments
    COMPARES_ROWS = auto()  # compares rows, or arrays that may be of rows
    WRITES_VALUES = auto()  # writes values of any type as text
    WRITES_JSON = auto()  # writes values of any type as json
    WRITES_ROW = auto()  # the same, and its first argument is a row
    WRITES_ARRAY = auto()  # the same, and its first argument is an array
    JOINS_AS_TEXT = auto()  # an operator between a text and a value of any type
    USES_LEXICON = auto()  # text search configurations or dictionaries of the database
    DEFINED_ROWS = auto()  # returns rows with the columns of a column definition list
    TAKES_ROW = auto()  # its first argument is a row, of the row type if it is a table's
    TAKES_COLUMNS = auto()  # the same, and a form of the same name takes the row as arrays of names and of texts
    POPULATED_ROWS = auto()  # returns rows of the type of its first argument
    # Dependence on a collation.
    COMPARES_TEXTS = auto()
    MAPS_CASE = auto()
    LIKE = auto()
    ILIKE = auto()
    REGULAR_EXPRESSION = auto()
    SEARCHES_TEXT = auto()
    ORDERS_TEXTS = auto()  # by their order, and there is no replacement under a collation
    MATCHES_TEXTS = auto()  # by their equality, and there is no replacement under a collation
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
    """One row of pg_aggregate. kind: n normal, o ordered-set, h hypothetical-set. `sort_operator`: the first value in
    this operator's order is the aggregate's result (min, max); 0 if none."""

    function: int
    kind: str
    direct_arguments: int
    transition_function: int
    final_function: int
    sort_operator: int
    transition_type: int
    initial_value: str | None
    final_extra: bool = False  # the final function gets NULLs of the types of the arguments too


@dataclass(frozen=True, slots=True)
class CallContext:
    """The context of the calling statement, for stable and volatile functions.

    It is the first argument of the python side of implementations with `needs_context`.
    """

    statement_time: int  # timestamptz: microseconds since 2000-01-01 UTC
    transaction_time: int
    timezone: str
    session: object  # engine.session.Session: see engine/execute/context.py for the Protocol that functions may use
    format: FormatSettings = DEFAULT_FORMAT  # text forms of values: concat(), format(), string output


Side = Callable[[Sequence[Sql], Sequence[TypeRef]], Sql | None]
"""Returns DuckDB SQL of a call, from its arguments and their types; None if only the UDF is exact."""
DuckSide = str | Side | None

AggregateSteps = tuple[Callable[..., object], Callable[..., object], Callable[..., object]]


def udf_name(source: str) -> str:
    """Returns the name of the UDF that calls the Python side of `source`, for SQL that calls it."""
    return f"shoal_{source}"


@dataclass(frozen=True, slots=True)
class Implementation:
    """The implementation of a function. The caller handles strictness: the python side of a strict function never gets
    None. The DuckDB side of a strict function returns NULL for NULL arguments.

    `python` takes internal forms. A set-returning function returns a list (or another iterable) of its rows: internal
    forms for one output column, tuples for several. A variadic function gets its last argument as an `Array`; a
    VARIADIC "any" function (concat, format) gets separate arguments. `python_for_types` is for functions whose Python
    side depends on the actual types (polymorphic ones): it makes the callable from the types of the arguments and of
    the result, once, at planning; `python` is then None.

    `duckdb` takes the SQL of each argument, in the DuckDB forms of the declared argument types, and returns SQL, as
    trees (catalog/duckdb). It is a template ('({0} + {1})'), or a callable, if a template does not suffice: the
    callable takes the arguments and their types, and returns None if only the UDF is exact. The TypeRef of a numeric
    argument has a modifier if the argument is a DECIMAL(p,s) in DuckDB, and -1 if it is a VARCHAR ("general numeric").
    If the callable returns None, or there is none, the UDF gets numeric arguments as VARCHAR. `duckdb_result` returns
    the physical type of the result from the same TypeRefs, and is called only if `duckdb` returned SQL (default: the
    declared result type; for numeric VARCHAR); `duckdb_result_of` is the same for results that also depend on the
    arguments' SQL. `duckdb_udfs` are the sources of the UDFs that the SQL calls by `udf_name`.

    Aggregates: `duckdb` returns SQL in which every aggregate call has the marks DISTINCT_MARK, ORDER_MARK and
    FILTER_MARK (catalog/duckdb/templates.py): a caller replaces them by DISTINCT, ORDER BY and FILTER / OVER.
    `python_aggregate` is (state maker, step(state, *arguments) -> state, final(state)); a step is not called for rows
    with a NULL argument, unless `steps_see_nulls`. An ordered-set aggregate's steps are called in the order of its
    WITHIN GROUP, and its direct arguments are the arguments of the state maker. `aggregate_for_types` makes the three
    from the argument types (direct ones first) and the result type.

    `duckdb_in_utc` is a DuckDB side that is valid only if the session's time zone is UTC: for functions between
    timestamptz and local time, whose Python side reads the zone from the context.

    `python_source` is a str.format template of a Python *expression* for code that inlines the call, and
    `python_names` has the globals of the expression. It has the same result as `python`.
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
    needs_session: bool = False  # uses the context's session, so only the engine's process can run it
    duckdb_in_utc: DuckSide = None
    duckdb_result_of: Callable[[Sequence[Sql], Sequence[TypeRef]], TypeRef] | None = None
