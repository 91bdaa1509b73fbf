"""RAISE, ASSERT, and the context of errors in PL/pgSQL (PostgreSQL manual, 43.9)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from catalog.errors import SqlError
from engine.sql.plpgsql.conditions import OTHERS, conditions
from engine.sql.plpgsql.tree import Fragment

if TYPE_CHECKING:
    from engine.statements.plpgsql.program import Program

SEVERITIES = {
    "exception": "ERROR", "warning": "WARNING", "notice": "NOTICE", "info": "INFO", "log": "LOG", "debug": "DEBUG",
}  # fmt: skip
_SQLSTATES = {"exception": "P0001", "warning": "01000"}
_FIELDS = {
    "column": "column",
    "constraint": "constraint",
    "datatype": "data_type",
    "table": "table",
    "schema": "schema",
}
_PLACE = re.compile("%%|%")
_SQLSTATE = re.compile("[0-9A-Z]{5}")
_NEVER_OTHERS = ("57014", "P0004")  # query_canceled, assert_failure


def add_option(options: dict[str, str], name: str, value: str | None, condition: str, has_message: bool) -> None:
    """Adds an option of RAISE. Raises 42601 for one that is given twice, 22004 for one that is NULL."""
    if value is None:
        raise SqlError("22004", "RAISE statement option cannot be null")
    if name in options or (name == "message" and has_message) or (name == "errcode" and condition):
        raise SqlError("42601", f"RAISE option already specified: {name.upper()}")
    options[name] = sqlstate_of(value) if name == "errcode" else value


def message_of(
    level: str, condition: str, message: str | None, values: Sequence[str | None], options: Mapping[str, str]
) -> SqlError:
    """What RAISE raises or sends. Values are texts."""
    sqlstate = sqlstate_of(condition) if condition else options.get("errcode", "")
    sqlstate = sqlstate or _SQLSTATES.get(level, "00000")
    text = options.get("message", condition or sqlstate) if message is None else format_message(message, values)
    fields = {field: options[name] for name, field in _FIELDS.items() if name in options}
    return SqlError(
        sqlstate,
        text,
        detail=options.get("detail"),
        hint=options.get("hint"),
        severity=SEVERITIES[level],
        **fields,  # type: ignore[arg-type]
    )


def format_message(message: str, values: Sequence[str | None]) -> str:
    """The message with values in place of %; NULL as <NULL>."""
    rest = iter(values)

    def put(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        value = next(rest)
        return "<NULL>" if value is None else value

    return _PLACE.sub(put, message)


def sqlstate_of(condition: str) -> str:
    """The SQLSTATE of a condition's name or of itself. Raises 42704."""
    if _SQLSTATE.fullmatch(condition):
        return condition
    found = conditions().get(condition)
    if found is None:
        raise SqlError("42704", f'unrecognized exception condition "{condition}"')
    return found[0]


def is_handled(error: SqlError, sqlstates: Sequence[str]) -> bool:
    """Whether a handler of these conditions takes the error. OTHERS takes no cancellation and no failed assertion."""
    for sqlstate in sqlstates:
        if sqlstate == OTHERS:
            if error.sqlstate not in _NEVER_OTHERS:
                return True
        elif error.sqlstate == sqlstate or (sqlstate.endswith("000") and error.sqlstate[:2] == sqlstate[:2]):
            return True
    return False


def place_of(program: Program, trace: TracebackType | None) -> tuple[int, str]:
    """(line of the body, kind of statement) where an error has come through a function; (0, '') outside of any."""
    while trace is not None and trace.tb_frame.f_code is not program.code:
        trace = trace.tb_next
    return place_at(program, 0 if trace is None else trace.tb_lineno)


def place_at(program: Program, line: int) -> tuple[int, str]:
    """(line of the body, kind of statement) for a line of a program's Python source."""
    position = bisect_right([place[0] for place in program.places], line) - 1
    return program.places[position][1:] if position >= 0 else (0, "")


def add_context(error: SqlError, line: str) -> None:
    """Adds a line to the context of an error on its way out."""
    error.context = line if error.context is None else f"{error.context}\n{line}"


class LineContext:
    """A block whose errors get a line of context."""

    __slots__ = ("_line",)

    def __init__(self, line: str) -> None:
        self._line = line

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SqlError):
            add_context(error, self._line)


class TextContext:
    """A block that runs SQL of a body: an error with a position shows the text, others get a line of context
    (_SPI_error_callback). `shift`: of positions. It has no state, and may be entered within itself."""

    __slots__ = ("_kind", "_shift", "_text")

    def __init__(self, text: str, kind: str = "SQL statement", shift: int = 0) -> None:
        self._text, self._kind, self._shift = text, kind, shift

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SqlError):
            self.add(error)

    def add(self, error: SqlError) -> None:
        """Adds it to an error."""
        if error.position is not None and error.internal_query is None:
            error.internal_query = self._text
            error.position = max(error.position + self._shift, 1)
        else:
            add_context(error, self.line)

    @property
    def line(self) -> str:
        """The line of context."""
        return f'{self._kind} "{self._text}"'


def context_of(fragment: Fragment) -> TextContext:
    """For errors of a text of the body."""
    return TextContext(fragment.query, fragment.kind, len(fragment.target) - fragment.before)


def context_line(signature: str, line: int, kind: str) -> str:
    """A line of CONTEXT."""
    if not line:
        return f"PL/pgSQL function {signature} {kind}".rstrip()
    if kind.startswith("during "):
        return f"PL/pgSQL function {signature} line {line} {kind}"
    return f"PL/pgSQL function {signature} line {line} at {kind}"
