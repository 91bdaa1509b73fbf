"""What comes of a statement, in full, so that two servers can be compared."""

from __future__ import annotations

import psycopg

Connection = psycopg.Connection[tuple[object, ...]]


def full_outcome(connection: Connection, sql: str) -> tuple[object, ...]:
    """The notices of a statement, and its tag with its rows, or its error with all fields."""
    notices: list[tuple[object, ...]] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        notices.append(
            (notice.severity, notice.sqlstate, notice.message_primary, notice.message_detail, notice.context)
        )

    connection.add_notice_handler(note)
    try:
        cursor = connection.execute(sql.encode())
        return notices, cursor.statusmessage, cursor.fetchall() if cursor.description else None
    except psycopg.Error as error:
        known = error.diag
        return (
            notices, known.sqlstate, known.message_primary, known.message_detail, known.message_hint, known.table_name,
            known.column_name, known.constraint_name, known.datatype_name, known.schema_name, known.internal_query,
            known.internal_position, known.statement_position, known.context,
        )  # fmt: skip
    finally:
        connection.remove_notice_handler(note)
