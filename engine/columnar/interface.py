"""The columnar path as the session sees it, and the types that its parts share.

    generate/     Query -> `ColumnarQuery`: DuckDB SQL over internal table names, and the tables that it reads
    feed.py       the changes that each loaded table lacks, collected from every commit
    client.py     the engine's side of the worker: updates tables, sends queries, streams results
    worker/       the process: DuckDB, its tables, the encoder of results. It exchanges frames with client.py over a
                  socket pair

Names inside DuckDB: a stored table is `t<storage_id>`, its columns `c<attnum>`, its hidden row number `r`. A virtual
table is `v<oid>`, with columns `c<attnum>`. A query has placeholders for tables, `{t<storage_id>}` and `{v<oid>}`. The
client replaces them by the plain table or, for a transaction with own writes or an old snapshot, by a merged view of
it, and for a virtual table by the version for this query. A placeholder stands where a table name may stand, and is
followed by an alias (`FROM {t123} AS x`), because its replacement may be a subquery in parentheses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

from catalog.memory import UNLIMITED
from catalog.schema import Table, VirtualTable
from catalog.types.base import FormatSettings, TypeRef
from engine.sql.tree import Expr
from engine.storage.moments import Lsn


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A result column: its SQL type, and the DuckDB type in which the generated SQL yields it (for the encoder).
    `fields`: the types of a record that is sent in binary, and comes as a STRUCT."""

    name: str
    type: TypeRef
    duckdb_type: str
    fields: tuple[TypeRef, ...] = ()


@dataclass(frozen=True, slots=True)
class UdfSignature:
    """A Python function that the worker registers in DuckDB before a query that calls it; equal names, equal meaning.

    What runs, by `kind` (`source` is the prosrc key into catalog.functions where one is named):
        function   the `python` side of implementation(source), one value a row
        set        the same of a set-returning function: all its values (or tuples, for a record) as one LIST
        aggregate  `python_aggregate` over whole groups: each argument is a LIST, all of one length, NULL when no row
                   came in (the result is then that of no rows); rows with a NULL are skipped if `strict`
        input      text -> result_type: its text_decoder(settings, result_type.typmod)
        output     argument type -> text: its text_encoder(settings)
        length     length_coercion(result_type.typmod, explicit) of a value of its own type; `source` is 'explicit' or
                   'implicit'
        key        key_encoder of the argument type -> BLOB whose order and equality are the type's own
    Values are converted between Arrow and internal form by SQL type (`argument_types`, `result_type`), each in the
    DuckDB type beside it; `result_fields` are the SQL types of the fields if the result is a record (a STRUCT with
    fields f1, f2, ...). A NULL argument gives NULL without a call if `strict`. Errors go out as
    catalog.functions.duckdb_errors says.

    `context` says which arguments come before the declared ones: '' none; 'settings' one VARCHAR made by
    `settings_text`; 'call' that VARCHAR, then statement time and transaction time (TIMESTAMP): enough for a CallContext
    without session. They are the same in every row.
    """

    name: str
    kind: str
    source: str
    argument_types: tuple[TypeRef, ...]
    argument_duckdb: tuple[str, ...]
    result_type: TypeRef
    result_duckdb: str
    strict: bool = True
    context: str = ""
    volatile: bool = False
    result_fields: tuple[TypeRef, ...] = ()
    direct: int = 0  # ordered-set aggregates: how many arguments are single values for the state maker, not LISTs
    distinct: tuple[tuple[int, bool, bool], ...] = ()
    """Aggregates with DISTINCT that is left to them: rows are sorted by these arguments (descending, NULLs first), and
    each counts once."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The DuckDB types of all arguments, those of the context first."""
        return CONTEXT_TYPES[self.context] + self.argument_duckdb


def whole_signature(oid: int, form: str) -> UdfSignature:
    """An array type's LISTs (of this DuckDB type) -> the text that any array of the type has."""
    return UdfSignature(
        name=f"whole_{oid}",
        kind="length",
        source="implicit",
        argument_types=(TypeRef(oid),),
        argument_duckdb=(form,),
        result_type=TypeRef(oid),
        result_duckdb="VARCHAR",
    )


CONTEXT_TYPES: dict[str, tuple[str, ...]] = {
    "": (),
    "settings": ("VARCHAR",),
    "call": ("VARCHAR", "TIMESTAMP", "TIMESTAMP"),
}


def settings_text(settings: FormatSettings) -> str:
    """The settings as one text, which UDFs with a context receive. `settings_of` reads it."""
    return json.dumps(list(astuple(settings)))


def settings_of(text: str) -> FormatSettings:
    """The inverse of `settings_text`."""
    return FormatSettings(*json.loads(text))


GROUP_ROWS = 122_880  # of a row group of DuckDB: fewer rows of a transaction are in memory until its commit
STATEMENT_TIME = -1
TRANSACTION_TIME = -2
FIRST_COMPUTED = -10


@dataclass(frozen=True, slots=True)
class ColumnarQuery:
    """`sql` has {t123} table placeholders (braces that are not placeholders are doubled, as for str.format) and
    parameters $1.. numbered by their position in `parameters`, not as in the statement.

    `parameters`: where each value comes from, with the DuckDB type it is bound as:
        n >= 1              the statement's parameter $n
        STATEMENT_TIME      the statement's time, TRANSACTION_TIME the transaction's (timestamptz)
        <= FIRST_COMPUTED   computed[FIRST_COMPUTED - n]: an expression without columns that needs the session, computed
                            on the engine's side before the query is sent
    `settings_free` is False when the SQL text depends on session settings (time zone, DateStyle) and must be made again
    after SET. `virtual_tables` are to be handed to the worker as relations `v<oid>`, `lists` as `l0`, `l1`, ...: Arrow
    streams with one column, `n`, of the query's own. `in_whole` makes the same query in
    the form that reads arrays of any shape, under these settings, or those that it was made under; there, stored tables
    with arrays are `w<storage_id>`. `in_digits`: likewise with numerics of any number of digits.
    """

    sql: str
    columns: tuple[OutputColumn, ...]
    tables: tuple[Table, ...]
    virtual_tables: tuple[VirtualTable, ...]
    parameters: tuple[tuple[int, str], ...]
    functions: tuple[UdfSignature, ...] = ()  # UDFs that it calls
    settings_free: bool = True
    computed: tuple[Expr, ...] = ()
    texts: tuple[tuple[int, int], ...] = ()  # (n, type) of parameters that are handed over in their text form
    types: tuple[tuple[str, ...], ...] = ()  # the user types that its columns and functions have (catalog.usertypes)
    lists: tuple[memoryview, ...] = field(default=(), compare=False, repr=False)
    whole: bool = False  # arrays are text in it
    arrays: tuple[int, ...] = ()  # storage ids of tables whose arrays it reads
    in_whole: Callable[[FormatSettings | None], ColumnarQuery] | None = field(default=None, compare=False, repr=False)
    in_digits: Callable[[FormatSettings | None], ColumnarQuery] | None = field(default=None, compare=False, repr=False)


class ResultStream(Protocol):
    """Encoded rows from the worker. `close` before the end (cancel, portal close) stops the query in the worker."""

    def __aiter__(self) -> AsyncIterator[tuple[bytes, int]]:
        """Chunks of encoded rows, with the number of rows in each. The worker waits for the reader, so few chunks are
        in memory."""

    async def close(self) -> None: ...


VirtualContent = Callable[[VirtualTable, object], "tuple[object, object]"]
"""(virtual table, reader) -> (version, content as engine/columnar/virtual.py makes it). Equal versions mean equal
content, which is sent once; a version of None is for what only this query is to see."""


class BatchStream(Protocol):
    """A result as pyarrow record batches. Close it if you do not read it to its end."""

    @property
    def lsn(self) -> Lsn:
        """The LSN of the query's state. Before a write, rows that changed later must be read again."""

    def __aiter__(self) -> AsyncIterator[object]: ...

    async def close(self) -> None: ...


class ColumnarEngine(Protocol):
    """`parameters` has an internal-form value for each entry of `query.parameters`, in that order."""

    async def rows(
        self,
        query: ColumnarQuery,
        parameters: Sequence[object],
        reader: object,
        encoding: RowEncoding,
        virtual: VirtualContent | None = None,
        memory: int = UNLIMITED,
    ) -> ResultStream:
        """Runs the query in the state of the reader (a Transaction, or a plain snapshot), and streams encoded rows.
        `memory`: the maximum number of bytes of a value that one of its functions makes."""

    async def batches(
        self,
        query: ColumnarQuery,
        parameters: Sequence[object],
        reader: object,
        virtual: VirtualContent | None = None,
        memory: int = UNLIMITED,
    ) -> BatchStream:
        """The result as pyarrow record batches in DuckDB's types, for DML on the columnar path."""


@dataclass(frozen=True, slots=True)
class RowEncoding:
    """How result rows leave the worker. kind: 'datarow' (DataRow messages; `formats` 0 text, 1 binary per column),
    'copy_text', 'copy_csv', 'copy_binary' (CopyData messages with one row each; `options` as in COPY: delimiter, null,
    quote, escape, force_quote ('*' or names joined by commas); 'copy_arrow' (an Arrow IPC stream in CopyData messages,
    its schema and its end as chunks without rows); header, and COPY's binary header, are the caller's)."""

    kind: str
    formats: tuple[int, ...]
    settings: FormatSettings
    options: tuple[tuple[str, str], ...] = ()
