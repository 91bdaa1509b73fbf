"""The one exception that reaches a client, and its SQLSTATE.

Every error carries what PostgreSQL's ErrorResponse carries (PostgreSQL 16 manual, 55.8). Code below the wire raises
`SqlError`; the wire turns it into the message. Whatever else is raised is a defect of ours and becomes XX000.
"""

from __future__ import annotations

from typing import NoReturn


class SqlError(Exception):
    """An error with a SQLSTATE (five characters, `catalog.sqlstates`).

    `position` counts characters of the statement from 1; None where there is none. `severity` is ERROR or FATAL;
    a FATAL error also closes the connection. `routine` is the function of PostgreSQL's source that reports it, for the
    few errors that drivers know by that.
    """

    def __init__(
        self,
        sqlstate: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
        context: str | None = None,
        schema: str | None = None,
        table: str | None = None,
        column: str | None = None,
        data_type: str | None = None,
        constraint: str | None = None,
        severity: str = "ERROR",
        routine: str | None = None,
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
        self.context = context
        self.schema = schema
        self.table = table
        self.column = column
        self.data_type = data_type
        self.constraint = constraint
        self.severity = severity
        self.routine = routine

    def __str__(self) -> str:
        return f"{self.sqlstate}: {self.message}"


def not_supported(feature: str, *, position: int | None = None, hint: str | None = None) -> NoReturn:
    """Refuses what Shoal does not do yet (0A000), by name: never ignored, never run as something else."""
    raise SqlError("0A000", f"{feature} is not supported", position=position, hint=hint)
