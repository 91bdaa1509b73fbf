"""Statements to a server and their answers, the next statement on its way while an answer is looked at.

A cursor of psycopg costs the client more than many a record costs the server, so statements go through its wrapper of
libpq, as simple queries; values are read by psycopg's own loaders.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

_REFUSED = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE)
_COPY = (ExecStatus.COPY_IN, ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH)


class Answer(NamedTuple):
    """Of a statement; of several in one text, of the first. `affected`: its rows, -1 if it has none."""

    rows: list[tuple[Any, ...]]
    affected: int


class Exchange:
    """`ask`, then `take`; the next may be asked while `answer` reads what was taken. What asking fails with is what
    the answer raises."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._transformer = Transformer(connection)
        self._failed: psycopg.Error | None = None
        self._taken: list[PGresult] | psycopg.Error = []

    def ask(self, sql: str) -> None:
        """Sends a statement and does not wait."""
        self._failed = None
        try:
            self._connection.pgconn.send_query(sql.encode())
        except psycopg.Error as error:
            self._failed = error

    def take(self) -> None:
        """Waits for what comes of the statement asked last."""
        try:
            self._taken = self._results()
        except psycopg.Error as error:
            self._taken = error

    def _results(self) -> list[PGresult]:
        if self._failed is not None:
            raise self._failed
        results = []
        while (result := self._connection.pgconn.get_result()) is not None:
            results.append(result)
            if result.status in _COPY:
                self._connection.close()
                raise psycopg.ProgrammingError("COPY cannot be used in scripts")
        return results

    def answer(self) -> Answer:
        """What was taken last. Raises psycopg.Error."""
        results = self._taken
        if isinstance(results, psycopg.Error):
            raise results
        for result in results:
            if result.status in _REFUSED:
                raise error_from_result(result)
        result = results[0]
        if result.status != ExecStatus.TUPLES_OK:
            return Answer([], -1 if result.command_tuples is None else result.command_tuples)
        self._transformer.set_pgresult(result)
        return Answer(self._transformer.load_rows(0, result.ntuples, tuple), result.ntuples)
