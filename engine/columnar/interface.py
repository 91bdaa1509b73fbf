"""The columnar path as the session sees it, and the types that its parts share.

    generate/     Query -> `ColumnarQuery`: DuckDB SQL over internal table names, and the tables that it reads
    feed.py       the changes that each loaded table lacks, collected from every commit
    client.py     the engine's side of the worker: updates tables, sends queries, streams results
    worker/       the process: DuckDB, its tables, the encoder of results. It exchanges frames with client.py over a
                  socket pair

Names inside DuckDB: a stored table is `t<storage_id>`, its columns `c<attnum>`, its hidden row number `r`. A virtual
table is `v<oid>`, with columns `c<attnum>`. A query has placeholders for tables, `{t<storage_id>}` and `{v<oid>}`. The
client replaces them by the plain table or, for a transaction with own writes or an old snapshot, by a merged view of
it, and for a virtual table by the version for this query. A placeholder takes the place of a table name and is followed
by an alias (`FROM {t123} AS x`), because its replacement may be a subquery in parentheses.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import astuple, dataclass, field
from typing import Protocol

from catalog.memory import UNLIMITED
from catalog.schema import Table, VirtualTable
from catalog.types.base import FormatSettings, TypeRef
from engine.execute.user_aggregates import BuiltInSteps
from engine.sql.tree import Expr
from engine.storage.moments import Lsn


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A result column: its SQL type, and its DuckDB type in the result of the generated SQL (for the encoder).
    `fields`: the types of the fields of a record that DuckDB returns as a STRUCT and that is sent in binary."""

    name: str
    type: TypeRef
    duckdb_type: str
    fields: tuple[TypeRef, ...] = ()


@dataclass(frozen=True, slots=True)
class UdfSignature:
    """A Python function that the worker registers in DuckDB before a query that calls it. Functions with equal names
    are equal.

    `kind` determines the code (`source` is the prosrc key into catalog.functions, unless noted otherwise):
        function   the `python` side of implementation(source), called for each row
        set        a set-returning function, called for each row: all its values (or tuples, for a record) as one LIST
        aggregate  `python_aggregate` over whole groups: the arguments are LISTs of equal length, NULL for a group
                   without rows; rows with a NULL are skipped if `strict`
        input      text -> result_type: its text_decoder(settings, result_type.typmod)
        output     argument type -> text: its text_encoder(settings)
        length     length_coercion(result_type.typmod, explicit) of a value of its own type; `source` is 'explicit' or
                   'implicit'
        key        key_encoder of the argument type -> BLOB with the type's order and equality
    Values are converted between Arrow and internal form by their SQL types (`argument_types`, `result_type`), each with
    its DuckDB type. `result_fields` are the SQL types of the fields of a record (a STRUCT with fields f1, f2, ...). If
    `strict`, a NULL argument gives NULL without a call. Errors have the form of catalog/functions/duckdb_errors.py.

    `context` determines the arguments before the declared ones: '' none; 'settings' one VARCHAR made by
    `settings_text`; 'call' that VARCHAR, the statement's time and the transaction's time (TIMESTAMP), which suffice for
    a CallContext without a session. They are the same in every row.
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
    direct: int = 0  # ordered-set aggregates: the number of arguments that are direct ones, and so not LISTs
    distinct: tuple[tuple[int, bool, bool], ...] = ()
    """For aggregates that implement DISTINCT: rows are sorted by these arguments (number, descending, NULLs first), and
    equal rows count once."""
    steps: BuiltInSteps | None = None  # of a user-defined aggregate, which has no `source`
    lexicon: str = ""  # what it uses of the database's text search (catalog/text_search/description.py)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The DuckDB types of all arguments, beginning with those of the context."""
        return CONTEXT_TYPES[self.context] + self.argument_duckdb


def whole_signature(oid: int, form: str) -> UdfSignature:
    """The function that converts LISTs (of this DuckDB type) to the text form for arrays of any shape."""
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


_DEFAULT_SETTINGS = astuple(FormatSettings())
_COMMON_SETTINGS = FormatSettings.__match_args__.index("similarity_threshold")


def settings_text(settings: FormatSettings) -> str:
    """The settings as one text, which UDFs with a context receive. `settings_of` reads it. Those of extensions, which
    are the last ones, are left out if they have their defaults."""
    values = astuple(settings)
    while len(values) > _COMMON_SETTINGS and values[-1] == _DEFAULT_SETTINGS[len(values) - 1]:
        values = values[:-1]
    return json.dumps(list(values))


def settings_of(text: str) -> FormatSettings:
    """The inverse of `settings_text`."""
    return FormatSettings(*json.loads(text))


GROUP_ROWS = 122_880  # in a row group of DuckDB; a transaction with fewer rows keeps them in memory until its commit
STATEMENT_TIME = -1
TRANSACTION_TIME = -2
FIRST_COMPUTED = -10


@dataclass(frozen=True, slots=True)
class ColumnarQuery:
    """A query for the worker. `sql` has placeholders of tables such as {t123} (other braces are doubled, as for
    str.format), and parameters $1, ... with the numbers of their positions in `parameters`, not those in the statement.

    `parameters`: the source of each value, with its DuckDB type:
        n >= 1              the statement's parameter $n
        STATEMENT_TIME      the statement's time, TRANSACTION_TIME the transaction's (timestamptz)
        <= FIRST_COMPUTED   computed[FIRST_COMPUTED - n]: an expression without columns that needs the session; the
                            engine computes it before it sends the query
    `settings_free` is False if the SQL text depends on settings of the session (time zone, DateStyle), and must be made
    again after SET. The worker receives `virtual_tables` as relations `v<oid>`, and `lists` as `l0`, `l1`, ...: Arrow
    streams with one column, `n`. `in_whole` makes the form of the query for arrays of any shape, under the given
    settings or those of this query; its stored tables with arrays are `w<storage_id>`. `in_digits` makes the form for
    numerics with any number of digits.
    """

    sql: str
    columns: tuple[OutputColumn, ...]
    tables: tuple[Table, ...]
    virtual_tables: tuple[VirtualTable, ...]
    parameters: tuple[tuple[int, str], ...]
    functions: tuple[UdfSignature, ...] = ()  # UDFs that it calls
    settings_free: bool = True
    computed: tuple[Expr, ...] = ()
    texts: tuple[tuple[int, int], ...] = ()  # (n, type) of parameters that are sent in text form
    types: tuple[tuple[str, ...], ...] = ()  # the user types of its columns and functions (catalog.type_descriptions)
    lists: tuple[memoryview, ...] = field(default=(), compare=False, repr=False)
    lexicon: str = ""  # text search objects whose names are shown (catalog/text_search/description.py)
    whole: bool = False  # its arrays are text
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
"""(virtual table, reader) -> (version, content in the form of engine/columnar/virtual.py). Equal versions mean equal
content, which is sent once. Content with the version None is for this query only."""


class BatchStream(Protocol):
    """A result as pyarrow record batches. The reader closes it if it does not read it to its end."""

    @property
    def lsn(self) -> Lsn:
        """The LSN of the query's state. Before a write, rows that changed later must be read again."""

    def __aiter__(self) -> AsyncIterator[object]: ...

    async def close(self) -> None: ...


class ColumnarEngine(Protocol):
    """The columnar path. `parameters` are the values of `query.parameters` in internal form, in that order."""

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
    """The form in which the worker sends result rows. kind: 'datarow' (DataRow messages; `formats` per column: 0 text,
    1 binary); 'copy_text', 'copy_csv', 'copy_binary' (CopyData messages with one row each; `options` as in COPY:
    delimiter, null, quote, escape, force_quote ('*' or names joined by commas)); 'copy_arrow' (an Arrow IPC stream in
    CopyData messages, with its schema and its end as chunks without rows). The caller writes COPY's header line or
    binary header."""

    kind: str
    formats: tuple[int, ...]
    settings: FormatSettings
    options: tuple[tuple[str, str], ...] = ()
