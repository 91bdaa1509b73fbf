"""The state of one generation, and the scopes of its queries.

A `Generation` belongs to a statement: the tables, parameters and UDFs that its SQL uses, and a counter for aliases, so
that every relation of the statement has its own alias (q1, q2, ...) and no name can be shadowed. A `Scope` belongs to
one Query: the aliases of its range table entries, its CTEs, and the SQL of its grouping expressions.

`Generation.finish` makes the text when the tree of a statement is complete. The tree has placeholders of tables between
two control characters. `finish` doubles the braces of the text, and then replaces the control characters by braces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import pyarrow as pa

from catalog.duckdb.nodes import (
    TABLE_MARKS,
    Call,
    ColumnReference,
    Parameter,
    Part,
    Sql,
    columns_of,
    text_literal,
    text_of,
)
from catalog.duckdb.types import BIGINT, BLOB, INTEGER, SMALLINT, TIMESTAMP, VARCHAR, DuckDBType, parse_type
from catalog.errors import not_supported
from catalog.functions.base import Trait
from catalog.functions.registry import has_trait
from catalog.schema import Table, VirtualTable
from catalog.text_search.description import describe as describe_lexicon
from catalog.type_descriptions import describe
from catalog.types import oids
from catalog.types.base import FormatSettings, Integers, TypeRef
from engine.columnar.frames import ipc_stream
from engine.columnar.generate.forms import (
    GENERAL,
    Piece,
    compact_form,
    convert,
    form_of,
    is_whole,
    settle,
    stored_form,
    whole,
)
from engine.columnar.generate.operands import Operands, is_named, named, steady, with_operands
from engine.columnar.interface import (
    FIRST_COMPUTED,
    STATEMENT_TIME,
    TRANSACTION_TIME,
    ColumnarQuery,
    OutputColumn,
    UdfSignature,
    settings_text,
    whole_signature,
)
from engine.sql import tree
from engine.sql.folding import Folding
from engine.storage.columns import takes_shapes

_LISTED = {SMALLINT: pa.int16(), INTEGER: pa.int32(), BIGINT: pa.int64(), BLOB: pa.binary()}
FEWEST = 9  # a list of so many values that are compared by keys is sent as a column of keys
MANY = 1024  # a list of so many integers is sent as a column
_SLICE = 16_384
_OPEN, _CLOSE = TABLE_MARKS


class Generation:
    """The state of generating one statement's SQL."""

    def __init__(self, settings: FormatSettings, parameter_types: Sequence[int], computes: bool = True) -> None:
        self.settings = settings
        # The engine computes constant calls that need a context; otherwise only those that need the session.
        self.computes = computes
        self.parameter_types = parameter_types
        self.tables: dict[int, Table] = {}
        self.virtual_tables: dict[int, VirtualTable] = {}
        self.parameters: dict[int, Parameter] = {}  # by their source (ColumnarQuery.parameters)
        self.functions: dict[str, UdfSignature] = {}
        self.texts: dict[int, int] = {}  # parameters that are sent as text -> their types
        self.computed: list[tree.Expr] = []
        self.lists: list[memoryview] = []
        self.folding = Folding()
        self.settings_free = True
        self.volatile = False  # the statement calls volatile functions
        self.streams = False  # DuckDB may compute the current expression after it has sent result rows
        self.operands: Operands | None = None  # of the current expression
        self._arrays: dict[tuple[str, str], int] = {}  # columns with arrays -> the storage ids of their tables
        self._aliases = 0

    @contextlib.contextmanager
    def streaming(self, streams: bool) -> Iterator[None]:
        """Sets `streams` for the SQL that is generated inside."""
        before, self.streams = self.streams, streams
        try:
            yield
        finally:
            self.streams = before

    def alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    def table(self, table: Table | VirtualTable) -> str:
        """Returns the placeholder of a stored or virtual table, and registers the table."""
        if isinstance(table, Table):
            self.tables[table.storage_id] = table
            return f"{_OPEN}{'w' if has_whole(table) else 't'}{table.storage_id}{_CLOSE}"
        self.virtual_tables[table.oid] = table
        return virtual_place(table.oid)

    def source(self, alias: str, table: Table | VirtualTable) -> Source:
        """Returns the columns of a stored or virtual table under an alias."""
        columns = {}
        for column in table.columns:
            form = form_of(column.type.oid, column.type.typmod)
            at = ColumnReference(alias, f"c{column.number}")
            piece = Piece(at, form)
            if column.type.oid == oids.NUMERIC:
                piece = convert(piece._replace(form=stored_form(oids.NUMERIC, column.type.typmod)), form)
            if isinstance(table, Table):
                piece = piece._replace(form=compact_form(column.type, piece.form))
                if takes_shapes(column.type.oid):
                    self._arrays[at.relation, at.name] = table.storage_id
            elif is_whole(column.type.oid):
                piece = self.as_whole(piece._replace(form=stored_form(column.type.oid, -1)), column.type.oid)
            columns[column.number] = piece
        return Source(alias, columns)

    def as_whole(self, piece: Piece, oid: int) -> Piece:
        """Converts a LIST to text, if the current form of arrays is text."""
        if not is_whole(oid):
            return piece
        form = stored_form(oid, -1)
        signature = whole_signature(oid, str(form))
        self.functions[signature.name] = signature
        return Piece(Call(signature.name, [convert(piece, form).sql]), GENERAL, once=piece.once)

    def parameter(self, source: int, type_: DuckDBType) -> Parameter:
        """Returns the parameter with this source (see ColumnarQuery.parameters)."""
        return self.parameters.setdefault(source, Parameter(len(self.parameters) + 1, type_))

    def compute(self, expression: tree.Expr) -> Piece:
        """Returns a parameter for an expression that the engine computes before it sends the query."""
        if expression not in self.computed:
            self.computed.append(expression)
        form = form_of(expression.type.oid, expression.type.typmod)
        if expression.type.oid == oids.NUMERIC:
            form = VARCHAR
        return Piece(self.parameter(FIRST_COMPUTED - self.computed.index(expression), form), form, once=True)

    def settings_argument(self) -> str:
        """Returns the session's format settings as a literal; then the text is valid for these settings only."""
        self.settings_free = False
        return text_literal(settings_text(self.settings))

    def relation_of(self, values: Sequence[object], form: DuckDBType) -> str:
        """Returns the placeholder of a relation with these integers or bytes, and NULLs, in its only column, `n`."""
        if isinstance(values, Integers):
            column = pa.array(values.column).cast(_LISTED[form])
        else:  # in slices, between which other threads can run; each call has a cost of 0.2 ms
            slices = (values[start : start + _SLICE] for start in range(0, len(values), _SLICE))
            column = pa.concat_arrays([pa.array(part, _LISTED[form]) for part in slices])
        self.lists.append(ipc_stream(pa.RecordBatch.from_arrays([column], ["n"])))
        return f"{_OPEN}l{len(self.lists) - 1}{_CLOSE}"

    def call_udf(self, signature: UdfSignature, arguments: Sequence[Part]) -> Call:
        """Returns a call of the UDF, and adds the UDF to the functions that the worker registers."""
        if any(is_whole(oid) for oid in used_types(signature)):
            signature = replace(signature, name=f"{signature.name}_t")
        signature = _of_lexicon(self._of_user_types(signature))
        self.functions[signature.name] = signature
        before: list[Part] = []
        if signature.context:
            before.append(self.settings_argument())
        if signature.context == "call":
            before.append(self.parameter(STATEMENT_TIME, TIMESTAMP))
            before.append(self.parameter(TRANSACTION_TIME, TIMESTAMP))
        return Call(signature.name, [*before, *arguments])

    def udf(self, signature: UdfSignature, arguments: Sequence[Part], once: bool = False) -> Piece:
        """Returns a call of the UDF as a piece with the form of the UDF's result."""
        return Piece(self.call_udf(signature, arguments), parse_type(signature.result_duckdb), once=once)

    def _of_user_types(self, signature: UdfSignature) -> UdfSignature:
        """Adds a hash of the definitions of user-defined types to the UDF's name: a changed definition needs a new
        UDF."""
        described = describe(used_types(signature))
        if not described:
            return signature
        digest = blake2b(repr(described).encode(), digest_size=8).hexdigest()
        return replace(signature, name=f"{signature.name}_{digest}")

    def finish(self, sql: Sql, columns: Sequence[OutputColumn]) -> ColumnarQuery:
        """Returns the complete query. Converts its tree to text, with placeholders for str.format."""
        return ColumnarQuery(
            sql=text_of(sql).replace("{", "{{").replace("}", "}}").replace(_OPEN, "{").replace(_CLOSE, "}"),
            columns=tuple(columns),
            tables=tuple(self.tables.values()),
            virtual_tables=tuple(self.virtual_tables.values()),
            parameters=tuple((source, str(item.type)) for source, item in self.parameters.items()),
            functions=tuple(self.functions.values()),
            settings_free=self.settings_free,
            computed=tuple(self.computed),
            texts=tuple(self.texts.items()),
            lists=tuple(self.lists),
            types=tuple(map(tuple, describe(self._types_used(columns)))),
            lexicon="" if _NAMES.isdisjoint(column.type.oid for column in columns) else describe_lexicon(),
            whole=whole(),
            arrays=self._arrays_read(sql),
        )

    def _arrays_read(self, sql: Sql) -> tuple[int, ...]:
        """Returns the tables whose array columns the query uses; if the current form of arrays is text, all tables
        with arrays."""
        if whole():
            return tuple(storage_id for storage_id, table in self.tables.items() if has_whole(table))
        if not self._arrays:
            return ()
        named = {(column.relation, column.name) for column in columns_of(sql)}
        return tuple({storage_id for name, storage_id in self._arrays.items() if name in named})

    def _types_used(self, columns: Sequence[OutputColumn]) -> Iterator[int]:
        yield from (type_.oid for column in columns for type_ in (column.type, *column.fields))
        for signature in self.functions.values():
            yield from used_types(signature)


def virtual_place(oid: int) -> str:
    """Returns the placeholder of a virtual table."""
    return f"{_OPEN}v{oid}{_CLOSE}"


_NAMES = frozenset((oids.REGCONFIG, oids.REGDICTIONARY, oids.REGCONFIG_ARRAY, oids.REGDICTIONARY_ARRAY))
"""Types whose values are shown as names of text search objects."""


def _of_lexicon(signature: UdfSignature) -> UdfSignature:
    """Adds the database's text search configurations and dictionaries, and a hash of them to the name, to a UDF that
    uses them."""
    if _NAMES.isdisjoint(used_types(signature)) and not has_trait(signature.source, Trait.USES_LEXICON):
        return signature
    described = describe_lexicon()
    if not described:
        return signature
    digest = blake2b(described.encode(), digest_size=8).hexdigest()
    return replace(signature, name=f"{signature.name}_{digest}", lexicon=described)


def used_types(signature: UdfSignature) -> Iterator[int]:
    """Yields the type OIDs of a UDF's result, arguments and result fields."""
    yield signature.result_type.oid
    yield from (item.oid for item in (*signature.argument_types, *signature.result_fields))
    if signature.steps is not None:
        yield signature.steps.state


def has_whole(table: Table) -> bool:
    """Whether the table has arrays whose current form is text."""
    return any(is_whole(column.type.oid) for column in table.columns)


class Source:
    """A range table entry in FROM under an alias: its columns c<number> and their forms.

    `present` is a column that is NULL only in rows that an outer join has added; None if there is no such join.
    """

    __slots__ = ("alias", "columns", "present")

    def __init__(self, alias: str, columns: dict[int, Piece], present: Sql | None = None) -> None:
        self.alias = alias
        self.columns = columns
        self.present = present

    @classmethod
    def of_pieces(cls, alias: str, pieces: Sequence[Piece]) -> Source:
        """Returns a derived table whose columns c1, c2, ... have these forms."""
        return cls(
            alias, {n: Piece(ColumnReference(alias, f"c{n}"), p.form, p.fields) for n, p in enumerate(pieces, 1)}
        )


@dataclass(slots=True)
class CteSource:
    """A WITH query: its name in DuckDB's SQL and the forms of its columns."""

    name: str
    pieces: list[Piece]


@dataclass(slots=True)
class Scope:
    """One query level. `sources` has an entry for each range table entry whose SQL has been generated.

    In a grouped query, `groups` maps each grouping expression to its SQL above GROUP BY; it is None before grouping and
    in the arguments of aggregates (`plain`).
    """

    generation: Generation
    query: tree.Query
    parent: Scope | None = None
    sources: dict[int, Source] = field(default_factory=dict)
    ctes: dict[str, CteSource] = field(default_factory=dict)
    groups: dict[tree.Expr, Piece] | None = None
    group_keys: dict[tree.Expr, Sql] = field(default_factory=dict)
    groups_are_columns: bool = True
    case_tests: list[Piece] = field(default_factory=list)
    domain_values: list[Piece] = field(default_factory=list)
    set_functions: bool = False  # a set-returning function is allowed (in the target list)
    correlated: bool = False  # an expression in the query refers to an outer level

    def up(self, levels: int) -> Scope:
        scope = self
        while levels:
            assert scope.parent is not None
            scope = scope.parent
            levels -= 1
        return scope

    def outer(self, levels: int) -> Scope:
        """Returns the scope `levels` levels out, to which a column or aggregate belongs, and marks the inner scopes as
        correlated."""
        scope = self
        while levels:
            assert scope.parent is not None
            scope.correlated = True
            scope = scope.parent
            levels -= 1
        return scope

    def plain(self, make: Callable[[], list[Piece]]) -> list[Piece]:
        """Calls `make` without grouping, for the arguments of an aggregate of this level."""
        kept, self.groups = self.groups, None
        try:
            return make()
        finally:
            self.groups = kept

    def cte(self, name: str, levels_up: int) -> CteSource:
        found = self.up(levels_up).ctes.get(name)
        if found is None:
            not_supported(f"this use of WITH query {name}")
        return found


Maker = Callable[[Scope, object], Piece]
_MAKERS: dict[type, Callable[..., Piece]] = {}


def makes(*nodes: type) -> Callable[[Callable[..., Piece]], Callable[..., Piece]]:
    """Decorator: registers the function as the generator of these nodes of the tree."""

    def register(maker: Callable[..., Piece]) -> Callable[..., Piece]:
        for node in nodes:
            _MAKERS[node] = maker
        return maker

    return register


def expression(scope: Scope, node: tree.Expr) -> Piece:
    """Returns the SQL of an expression in this scope. Raises 0A000 if the columnar path cannot compute it."""
    return settle(scaled_expression(scope, node))


def compact_expression(scope: Scope, node: tree.Expr) -> Piece:
    """Returns the same for callers that accept char(n) without its blanks."""
    piece = scaled_expression(scope, node)
    return piece if piece.scale is None else settle(piece)


def scaled_expression(scope: Scope, node: tree.Expr) -> Piece:
    """Returns the same for callers that also accept scaled numerics (see forms.py)."""
    if scope.groups is not None and not scope.groups_are_columns:
        found = scope.groups.get(node)
        if found is not None:
            return found
    maker = _MAKERS.get(type(node))
    if maker is None:
        not_supported(f"{type(node).__name__} on this query", position=_position(node))
    return _of_operands(scope, node, maker) if scope.generation.volatile else maker(scope, node)


def _of_operands(scope: Scope, node: tree.Expr, maker: Callable[..., Piece]) -> Piece:
    """Calls the maker, and makes the result evaluate each volatile operand once (operands.py)."""
    generation = scope.generation
    outer, generation.operands = generation.operands, []
    try:
        piece, operands = maker(scope, node), generation.operands
    finally:
        generation.operands = outer
    if operands:
        piece = with_operands(piece, operands, generation.alias)
    return piece if outer is None or not is_named(node) else named(piece, node, generation.alias(), outer)


def stable(scope: Scope, sql: Sql) -> Sql:
    """Returns the SQL for a clause in which DuckDB refuses volatile expressions, with errors that DuckDB does not
    consider volatile."""
    return steady(sql, scope.generation.operands or [])


def _position(node: tree.Expr) -> int | None:
    location: int = getattr(node, "location", -1)
    return location + 1 if location >= 0 else None


def type_names(argument_types: Sequence[TypeRef]) -> str:
    """Returns argument types as PostgreSQL's messages list them: 'integer, text'."""
    from catalog.types import format_type

    return ", ".join(format_type(item.oid) for item in argument_types)
