"""A statement sent as a simple query through libpq, and everything that came back, as a JSON value.

    ["rows", [column names], [[values as text or null]]]   ["done", command tag]   ["error", SQLSTATE, message]
    ["copy", text]   ["lost", why]

COPY FROM STDIN is fed from `data`, COPY TO STDOUT is collected.
"""

from __future__ import annotations

import select
import time
from typing import Any

from psycopg import pq

STARTED = (pq.ConnStatus.OK,)
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)


class Patience(Exception):  # noqa: N818 - named for what is over
    """The server did not answer in time."""


def connect(dsn: str) -> pq.PGconn:
    """A blocking connection. Raises ConnectionError."""
    connection = pq.PGconn.connect(dsn.encode())
    if connection.status != pq.ConnStatus.OK:
        raise ConnectionError(connection.error_message.decode(errors="replace"))
    return connection


def send(connection: pq.PGconn, sql: str) -> None:
    """Sends a query. What comes back is for `results`."""
    connection.send_query(sql.encode())


def ready(connection: pq.PGconn, seconds: float) -> bool:
    """Waits so long for the next result; whether it is there. Notices and notifications are taken in meanwhile."""
    end = time.monotonic() + seconds
    while connection.is_busy():
        left = end - time.monotonic()
        if left < 0 or not select.select([connection.socket], [], [], left)[0]:
            return False
        connection.consume_input()
    return True


def results(connection: pq.PGconn, seconds: float, data: str = "") -> list[Any]:
    """Everything that a query sent before gives. Raises Patience."""
    found: list[Any] = []
    while True:
        if not ready(connection, seconds):
            raise Patience
        result = connection.get_result()
        if result is None:
            return found
        found.append(_record(connection, result, data))
        if found[-1][0] == "lost":
            return found


def run(connection: pq.PGconn, sql: str, seconds: float, data: str = "") -> list[Any]:
    """`send` and `results`. A connection that is lost or too late is closed, and says so."""
    try:
        send(connection, sql)
        return results(connection, seconds, data)
    except Patience:
        connection.finish()
        return [["lost", f"no answer within {seconds:.0f} s"]]
    except Exception as error:
        connection.finish()
        return [["lost", str(error).strip()]]


def _record(connection: pq.PGconn, result: Any, data: str) -> list[Any]:
    status = result.status
    if status == pq.ExecStatus.TUPLES_OK:
        names = [_text(result.fname(column)) for column in range(result.nfields)]
        rows = [
            [_text(result.get_value(row, column)) for column in range(result.nfields)] for row in range(result.ntuples)
        ]
        return ["rows", names, rows]
    if status in _DONE:
        return ["done", _text(result.command_status) or ""]
    if status == pq.ExecStatus.COPY_IN:
        if data:
            connection.put_copy_data(data.encode())
        connection.put_copy_end()
        return ["copy", ""]
    if status == pq.ExecStatus.COPY_OUT:
        parts: list[bytes] = []
        while True:
            size, part = connection.get_copy_data(0)
            if size < 0:
                return ["copy", b"".join(parts).decode(errors="replace")]
            parts.append(bytes(part))
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    if state is None:
        connection.finish()
        return ["lost", _text(result.error_message) or "connection lost"]
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    return ["error", _text(state), _text(message)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def summary(record: list[Any]) -> str:
    """One result in one short line."""
    kind = record[0]
    if kind == "rows":
        return f"{len(record[2])} rows {record[2][:2]}"[:160]
    if kind == "error":
        return f"{record[1]} {record[2]}"
    return f"{kind} {record[1]}"[:160]


def difference(sql: str, wanted: list[Any], got: list[Any]) -> str:
    """'' if the results are the same, else what is different. Rows are compared in order where ORDER BY says one."""
    for number, expected in enumerate(wanted):
        if number >= len(got):
            return f"no result, {summary(expected)} expected"
        found = got[number]
        if expected == found or (expected[0] == found[0] == "rows" and _same_rows(sql, expected, found)):
            continue
        if expected[0] == found[0] == "copy" and sorted(expected[1].split("\n")) == sorted(found[1].split("\n")):
            continue
        if found[0] in ("error", "lost"):
            return summary(found)
        return f"{summary(found)}; expected {summary(expected)}"
    return "" if len(got) == len(wanted) else f"{len(got)} results, {len(wanted)} expected"


def _same_rows(sql: str, expected: list[Any], found: list[Any]) -> bool:
    if expected[1] != found[1] or "order by" in sql.lower():
        return False
    return sorted(map(repr, expected[2])) == sorted(map(repr, found[2]))
