"""A planned statement, and a portal over it.

`Prepared` is what the plan cache holds and every session shares: which path the statement takes and what is made once
for it. `wire_cache` is a place where the protocol layer keeps what it makes once per result formats (RowDescription).
"""

from __future__ import annotations

import re
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from catalog.memory import Holding
from catalog.patience import TooLong
from catalog.schema import Catalog
from catalog.types import lookup, oids
from catalog.types.datetime import outside_of_plans
from catalog.types.oids import NAMED_ARRAY_TYPES, NAMED_TYPES
from engine.columnar.generate import ColumnarDml
from engine.columnar.interface import ColumnarQuery, ResultStream
from engine.execute.context import ExecContext, Field, RowPathHeavy, RowPlan
from engine.node.plan_cache import PlanKey
from engine.sql import ast, tree
from engine.sql.analyze import Environment
from engine.sql.analyze.environment import usable_path
from engine.sql.analyze.literals import read_literal

if TYPE_CHECKING:
    from engine.session.compound import CompoundPlan
    from engine.session.positioned import Places, Positions
    from engine.session.routing import Route
    from engine.statistics.statements import Tally

RunRow = Callable[[ExecContext, Sequence[object]], tuple[bytes, int]]
ParameterDecoder = Callable[[bytes], object]
# Types whose texts never mean a time.
_TIMELESS = oids.NUMBERS | oids.COLLATABLE | oids.JSON_TYPES | {oids.BOOL, oids.BYTEA, oids.CHAR, oids.UUID}
_SAFE_DIGITS = {oids.INT8: 18, oids.INT2: 4, oids.INT4: 9}  # so many digits are always within the type


def _behind(first: Callable[[ExecContext, Sequence[object]], object], run: RunRow) -> RunRow:
    def both(context: ExecContext, parameters: Sequence[object]) -> tuple[bytes, int]:
        try:
            first(context, parameters)
        except TooLong:
            if not context.stays:
                raise RowPathHeavy from None
        return run(context, parameters)

    return both


@dataclass(slots=True, weakref_slot=True)
class Prepared:
    """kind: row | columnar | dml | compound | utility | empty | unplanned. `row` may fall back to `columnar`/`dml`,
    made on first need, and becomes `columnar` for some executions where it does so again and again (`overflowed`); an
    unplanned one has its text, and is planned when it is used first."""

    kind: str
    statement: ast.Statement
    parameter_types: tuple[int, ...]
    fields: tuple[Field, ...] | None  # None: returns no rows
    catalog: Catalog
    key: PlanKey
    command: str = ""
    writes: bool = False
    relations: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    analyzed: tree.Analyzed | None = None
    row: RowPlan | None = None
    columnar: ColumnarQuery | None = None
    binary_columnar: dict[tuple[int, ...], ColumnarQuery] = field(
        default_factory=dict
    )  # by formats: planning.columnar_in
    dml: ColumnarDml | None = None
    computes: bool = True  # the engine computes constants for these plans, for none has taken long
    settled: dict[str, Prepared] = field(default_factory=dict)  # by parameters: engine/session/settled.py
    compound: CompoundPlan | None = None
    wire_cache: dict[object, bytes] = field(default_factory=dict)
    locks: tuple[tuple[int, int], ...] = ()  # (relation OID, mode of engine/txn/locks.py)
    literal_decoders: tuple[Callable[[bytes], object], ...] = ()
    runs: dict[tuple[int, ...], RunRow] = field(default_factory=dict)
    _decoders: dict[tuple[int, ...], tuple[ParameterDecoder, ...]] = field(default_factory=dict)

    fails_first: Callable[[ExecContext, Sequence[object]], object] | None = None  # see engine/execute/constants.py

    all_locks: tuple[tuple[int, int], ...] = ()  # where the row plan takes those of partitions itself: all of them

    lasting: bool = True  # not made of constants like 'now', which mean the time at which they were read

    temporary: bool = False  # it writes temporary tables only, as a read-only transaction may

    text_formats: tuple[int, ...] = ()  # every result column as text, as simple queries get them
    text_run: RunRow | None = None

    places: tuple[Places, ...] | None = None  # of a cursor: what its plan selects in front of `fields`

    control: ast.TransactionStmt | None = None  # the statement, if it is BEGIN, COMMIT and their kin

    description: tuple[int, str] | None = None  # of a long text: made where it was planned, in a thread
    tally: Tally | None = None  # where its executions are counted, once there was one

    past: object = None  # of kind 'past': how it is run (engine/session/past.py)

    elsewhere: int = 0  # executions until the row path is tried again
    overflows: tuple[int, int] = (0, -1)  # in a row, and how many executions the row path had finished before the last

    # What it became when the schema had changed, for the other sessions that have it. Whoever runs that keeps it alive.
    successor: weakref.ref[Prepared] | None = None

    route: Route | None = None  # where it may run, on a node that has asked (engine/session/routing.py)

    def __post_init__(self) -> None:
        if isinstance(self.statement.tree, ast.TransactionStmt):
            self.control = self.statement.tree
        self.text_formats = (0,) * len(self.fields or ())

    @property
    def declared_types(self) -> tuple[int, ...]:
        """The types of the parameters as clients are told of them, and as it is planned again: domains are domains."""
        return (self.analyzed.declared_types if self.analyzed is not None else ()) or self.parameter_types

    def overflowed(self) -> None:
        """The row path has given up, after some milliseconds of everybody's time. So the next executions of a query go
        to the columnar path at once: twice as many each time, MOST_ELSEWHERE at most, if it has finished none since."""
        if self.kind != "row" or self.columnar is None or self.writes:
            return
        tally = self.tally
        finished = 0 if tally is None else tally.single + len(tally.alone) + len(tally.inside)
        times, before = self.overflows
        times = times + 1 if finished == before else 1
        self.overflows = times, finished
        self.elsewhere = min((1 << times) - 1, MOST_ELSEWHERE)
        self.kind = "columnar"

    def ran_elsewhere(self) -> None:
        """One of the executions that `overflowed` has spared the row path."""
        if self.elsewhere:
            self.elsewhere -= 1
            if not self.elsewhere:
                self.kind = "row"

    def follow(self, before: Prepared) -> None:
        """Takes the place of a plan of the same text: what its executions have shown goes on to hold."""
        self.overflows = before.overflows
        if before.elsewhere and self.columnar is not None:
            self.elsewhere, self.kind = before.elsewhere, "columnar"

    def run_text(self) -> RunRow:
        """The compiled function for results in text, made on first use."""
        self.text_run = self.run_row(self.text_formats)
        return self.text_run

    def formats(self, requested: tuple[int, ...]) -> tuple[int, ...]:
        """One format code per result column from those of Bind: none, one for all, or one each. Raises 08P01."""
        count = len(self.fields or ())
        if len(requested) == count and count != 1:
            return requested
        if not requested:
            return (0,) * count
        if len(requested) == 1:
            return requested * count
        raise SqlError("08P01", f"bind message has {len(requested)} result formats but query has {count} columns")

    def run_row(self, formats: tuple[int, ...]) -> RunRow:
        """The compiled function for these result formats."""
        run = self.runs.get(formats)
        if run is None:
            assert self.row is not None
            run = self.row.encoded(formats)
            run = self.runs[formats] = run if self.fails_first is None else _behind(self.fails_first, run)
        return run

    def decoders(self, formats: tuple[int, ...]) -> tuple[ParameterDecoder, ...]:
        """What reads Bind's parameters in these formats, one for each. Raises 08P01."""
        decoders = self._decoders.get(formats)
        if decoders is None:
            decoders = self._decoders[formats] = self._make_decoders(formats)
        return decoders

    def decode(self, parameters: list[bytes | None], formats: tuple[int, ...]) -> list[object]:
        """Bind's parameters, one for each type, in internal form. Raises what the types' inputs raise."""
        decoders = self.decoders(formats)
        return [None if value is None else decoder(value) for value, decoder in zip(parameters, decoders, strict=True)]

    def explain_parameter(
        self, error: SqlError, portal: bytes, parameters: list[bytes | None], formats: tuple[int, ...]
    ) -> None:
        """Says in the error's context which parameter could not be read, without its value, as PostgreSQL does."""
        for number, (value, decoder) in enumerate(zip(parameters, self._decoders.get(formats, ()), strict=False), 1):
            try:
                if value is not None:
                    decoder(value)
            except SqlError:
                binary = formats and formats[number - 1 if len(formats) > 1 else 0]
                shown = f'portal "{portal.decode()}"' if portal else "unnamed portal"
                error.context = f"{shown} parameter ${number}" + ("" if binary else " = '...'")
                return

    def text_decoder(self, oid: int) -> Callable[[str], object]:
        """The input function of a type under the statement's settings; the reg types read names of its catalog."""
        if oid not in NAMED_TYPES and oid not in NAMED_ARRAY_TYPES:
            decode = lookup(oid).text_decoder(self.key.format)
            return decode if oid in _TIMELESS else outside_of_plans(decode)
        key = self.key
        path = usable_path(self.catalog, key.search_path, key.user)
        environment = Environment(self.catalog, path, key.user, format=key.format, asks=True)
        return lambda text: read_literal(environment, text, oid, -1, -1)

    def _make_decoders(self, formats: tuple[int, ...]) -> tuple[ParameterDecoder, ...]:
        count = len(self.parameter_types)
        if not formats:
            formats = (0,) * count
        elif len(formats) == 1:
            formats = formats * count
        elif len(formats) != count:
            raise SqlError("08P01", f"bind message has {len(formats)} parameter formats but {count} parameters")
        decoders = []
        for oid, code in zip(self.parameter_types, formats, strict=True):
            if code == 1:
                decoders.append(lookup(oid).binary_decoder())
            elif code == 0:
                decoder = _from_text(self.text_decoder(oid), oid not in oids.NUMBERS)
                decoders.append(_from_digits(decoder, _SAFE_DIGITS[oid]) if oid in _SAFE_DIGITS else decoder)
            else:
                raise SqlError("08P01", f"unsupported format code: {code}")
        return tuple(decoders)


def _from_text(decode: Callable[[str], object], textual: bool) -> ParameterDecoder:
    if not textual:
        # What is not ASCII is refused by the type's input, with the text in its message.
        return lambda value: decode(value.decode() if value.isascii() else utf8(value))

    return lambda value: decode(utf8(value))


def _from_digits(decode: ParameterDecoder, most: int) -> ParameterDecoder:
    """An integer's text: what is nothing but a few digits, perhaps behind a minus, needs no further look."""

    def read(value: bytes) -> object:
        if value.isdigit() and len(value) <= most:
            return int(value)
        digits = value[1:]
        if value[:1] == b"-" and digits.isdigit() and len(digits) <= most:
            return int(value)
        return decode(value)

    return read


def utf8(value: bytes) -> str:
    """Strict UTF-8 without NUL (22021), as every text from a client must be."""
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        bad = value[error.start : error.start + 4]
        shown = " ".join(f"0x{byte:02x}" for byte in bad)
        raise SqlError("22021", f'invalid byte sequence for encoding "UTF8": {shown}') from None
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    return text


MOST_ELSEWHERE = 31


class StalePlan(Exception):  # noqa: N818 - not an error: the statement is planned again
    """The schema has changed since the plan was made: while it waited for a lock, or between Bind and Execute."""


_LETTERS = 64
_AS_OF = re.compile(r"\bas\s+of\s+(lsn|timestamp)\b", re.IGNORECASE)


def may_read_past(text: str) -> bool:
    """Whether a statement may have AS OF in it, by its text: then engine/session/past.py tells, on the engine's
    thread. The word is looked for first: the expression takes 5 ms for a megabyte, and keeps the interpreter."""
    return _has_of(text) and _AS_OF.search(text) is not None


def _has_of(text: str) -> bool:
    """Letter by letter: what makes texts long is numbers, and to look for one letter takes a tenth of what two take.
    Where there are many, the word is looked for."""
    for letter in "oO":
        at = text.find(letter)
        for _ in range(_LETTERS):
            if at < 0:
                break
            if text[at + 1 : at + 2] in ("f", "F"):
                return True
            at = text.find(letter, at + 1)
        else:
            return any(word in text for word in ("of", "OF", "Of", "oF"))
    return False


class PastWait(Exception):  # noqa: N818 - not an error: the statement is planned again
    """The past that a statement reads has to be made first: await `ready()`."""

    def __init__(self, ready: Callable[[], Awaitable[None]]) -> None:
        self.ready = ready


async def once_known(plan: Callable[[], Prepared]) -> Prepared:
    """What `plan` gives once all of the past that it asks for is there: the moment of a time, then the state of it."""
    while True:
        try:
            return plan()
        except PastWait as wait:
            await wait.ready()


class Portal:
    """A bound statement. Once started, rows come from `pending` (framed DataRow messages, whole) and then `stream`."""

    __slots__ = (
        "bound", "chunks", "count", "done", "error", "formats", "held", "holdable", "holding", "kept", "name",
        "parameters", "path", "pending", "pending_rows", "position", "positions", "prepared", "rows", "scroll",
        "started", "stream", "took",
    )  # fmt: skip

    chunks: AsyncIterator[tuple[bytes, int]]  # set with `stream`

    def __init__(
        self, prepared: Prepared, parameters: Sequence[object], formats: tuple[int, ...], name: bytes = b""
    ) -> None:
        self.prepared = prepared
        self.parameters = parameters
        self.formats = formats
        self.name = name
        self.started = False
        self.done = False
        self.pending = b""
        self.pending_rows = 0
        self.stream: ResultStream | None = None
        self.count = 0
        self.holdable = False
        self.holding: Holding | None = None  # what its rows take
        self.bound: Holding | None = None  # what its parameters take, if that is much
        self.kept = False  # a cursor WITH HOLD whose transaction has been committed
        self.scroll = False
        self.position = 0
        self.held: Mapping[Hashable, int] | None = None  # the table locks from before the statement, once it has some
        self.error: SqlError | None = None  # what the next FETCH raises
        self.positions: Positions | None = None  # where a cursor's rows lie, if it can be changed through
        self.path = "utility"  # that it took, once it has run: utility, row, columnar
        self.took = 0.0  # seconds of execution so far
        self.rows: list[bytes] | None = None  # a materialised cursor: one DataRow message each

    def take(self, limit: int) -> tuple[bytes, int]:
        """Up to `limit` pending rows (0: all), and how many they are."""
        data, rows = self.pending, self.pending_rows
        if not limit or rows <= limit:
            self.pending, self.pending_rows = b"", 0
            return data, rows
        end = 0
        for _ in range(limit):
            end += 1 + int.from_bytes(data[end + 1 : end + 5], "big")
        self.pending, self.pending_rows = data[end:], rows - limit
        return data[:end], limit
