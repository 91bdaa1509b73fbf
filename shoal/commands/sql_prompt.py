"""The prompt of `shoal sql`: history, colours, completion of keywords and of names in the database.

Enter runs the input if its statements are complete, and otherwise starts a new line. The history is in
$XDG_STATE_HOME/shoal (~/.local/state/shoal), readable by its owner only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import PostgresLexer

from catalog.errors import SqlError
from engine.sql.dialects.names import SHOAL
from shoal.commands.sql_channels import ChannelResult, SqlChannel
from shoal.commands.sql_errors import format_error
from shoal.commands.sql_text import statements_of
from shoal.config import ConfigError

_NAMES = """
    SELECT relname FROM pg_class WHERE relkind IN ('r', 'v', 'm', 'p') UNION
    SELECT attname FROM pg_attribute WHERE attnum > 0 AND attrelid >= 16384 UNION SELECT nspname FROM pg_namespace
"""
_TABLES = """
    SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
        ELSE 'table' END AS kind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'v', 'm', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
    ORDER BY 1, 2
"""
_KEYWORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET INSERT INTO VALUES UPDATE SET DELETE RETURNING CREATE
    TABLE INDEX VIEW DROP ALTER ADD COLUMN PRIMARY KEY REFERENCES UNIQUE NOT NULL DEFAULT BEGIN COMMIT
    ROLLBACK SAVEPOINT JOIN LEFT RIGHT FULL CROSS ON USING UNION ALL DISTINCT AS OF LSN TIMESTAMP CASE WHEN
    THEN ELSE END EXPLAIN ANALYZE WITH RECURSIVE MERGE TRUNCATE GRANT REVOKE SHOW RESET count sum avg min max
    now coalesce generate_series
"""
_HELP = "; ends a statement, \\d lists the tables, \\q or ^D quits, ^C cancels, Tab completes, ^R searches the history"


class _ContinuesInput:
    """Whether the input is incomplete, so that Enter starts a new line.

    The value does not change during a search of the history. The layout of the prompt depends on it, and prompt_toolkit
    looks for the end of a search in the layout in which it started."""

    def __init__(self, dialect: str) -> None:
        self.buffer: Buffer | None = None
        self._dialect = dialect
        self._was = False

    def __call__(self) -> bool:
        if self.buffer is not None and not get_app().layout.is_searching:
            self._was = not _is_complete(self.buffer.text, self._dialect)
        return self._was


def prompt(channel: SqlChannel, show: Callable[[ChannelResult], None], dialect: str = SHOAL) -> int:
    """Reads and runs statements until the end of the input, and returns the exit status."""
    goes_on = _ContinuesInput(dialect)
    session: PromptSession[str] = PromptSession(
        history=_history(), lexer=PygmentsLexer(PostgresLexer), multiline=Condition(goes_on),
        complete_while_typing=False, completer=WordCompleter(lambda: _words(channel, dialect), ignore_case=True),
    )  # fmt: skip
    goes_on.buffer = session.default_buffer
    print(f"shoal sql: {_HELP}", file=sys.stderr)
    while True:
        try:
            text = session.prompt("shoal> ", prompt_continuation="     > ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        if text in ("\\q", "quit", "exit"):
            return 0
        if text == "help" or (text.startswith("\\") and text != "\\d"):
            print(_HELP if text in ("help", "\\?", "\\h") else f"unknown command {text.split()[0]}; {_HELP}")
            continue
        _answer(channel, text, show, dialect)


def _answer(channel: SqlChannel, text: str, show: Callable[[ChannelResult], None], dialect: str) -> None:
    statement = ""
    try:
        if text == "\\d":
            for result in _own(channel, dialect, _TABLES):
                show(result)
            return
        ended, rest = statements_of(text, dialect)
        for statement in [*ended, *([rest] if rest else [])]:
            for result in channel.run(statement):
                show(result)
    except SqlError as error:
        print(f"ERROR: {format_error(error, statement)}", file=sys.stderr)
    except ConfigError as error:
        print(f"ERROR: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("cancelled", file=sys.stderr)


def _own(channel: SqlChannel, dialect: str, query: str) -> Iterator[ChannelResult]:
    """The results of a query of the prompt itself, which is in PostgreSQL's SQL."""
    if dialect == SHOAL:
        yield from channel.run(query)
        return
    list(channel.run(f"SET sql_dialect = '{SHOAL}'"))
    try:
        yield from list(channel.run(query))
    finally:
        list(channel.run(f"SET sql_dialect = '{dialect}'"))


def _is_complete(text: str, dialect: str) -> bool:
    """Whether Enter runs the text."""
    plain = text.strip()
    return plain.startswith("\\") or plain in ("", "help", "quit", "exit") or not statements_of(text, dialect)[1]


def _words(channel: SqlChannel, dialect: str) -> list[str]:
    """The words that Tab completes. They are read each time, because names change. In a failed transaction they are the
    keywords only."""
    try:
        names = [(row[0] or b"").decode() for result in _own(channel, dialect, _NAMES) for row in result.rows]
    except (SqlError, ConfigError):
        names = []
    return [*_KEYWORDS.split(), *names]


def _history() -> FileHistory:
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "shoal"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / "sql_history"
    file.touch(mode=0o600)
    return FileHistory(str(file))
