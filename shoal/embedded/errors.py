"""PEP 249's exceptions, each with what PostgreSQL says of an error: SQLSTATE, detail, hint, names.

Which class of SQLSTATEs is which exception is as in psycopg, so that code moves between the two.
"""

from __future__ import annotations

from catalog.errors import SqlError


class Warning(Exception):  # noqa: N818 - PEP 249's name
    """PEP 249's; nothing raises it: notices are in `Connection.notices`."""


class Error(Exception):
    """The base of all others. `sqlstate` has PostgreSQL's five characters, '' where the database has not spoken."""

    def __init__(self, message: str, cause: SqlError | None = None) -> None:
        super().__init__(message)
        self.sqlstate = cause.sqlstate if cause else ""
        self.detail = cause.detail if cause else None
        self.hint = cause.hint if cause else None
        self.position = cause.client_position if cause else None
        self.schema = cause.schema if cause else None
        self.table = cause.table if cause else None
        self.column = cause.column if cause else None
        self.constraint = cause.constraint if cause else None


class InterfaceError(Error):
    """The interface was used wrongly: a closed cursor, results that are not there."""


class DatabaseError(Error):
    """An error that the database reports."""


class DataError(DatabaseError):
    """A value is out of its range, or no value of its type."""


class OperationalError(DatabaseError):
    """The state of the database: locks, serialization failures, limits, a directory that is in use."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """A transaction in the wrong state, or a defect."""


class ProgrammingError(DatabaseError):
    """The statement: its syntax, names, types, privileges."""


class NotSupportedError(DatabaseError):
    """An operation that is not supported; the message names it."""


_BY_SQLSTATE: tuple[tuple[type[DatabaseError], frozenset[str]], ...] = (
    (DataError, frozenset(("22",))),
    (IntegrityError, frozenset(("23",))),
    (NotSupportedError, frozenset(("0A",))),
    (ProgrammingError, frozenset(("20", "21", "3D", "3F", "42", "44"))),
    (InternalError, frozenset(("24", "25", "2B", "2D", "2F", "38", "39", "3B", "F0", "P0", "XX"))),
)


def exception_of(error: SqlError) -> DatabaseError:
    """The exception for an error of the database."""
    kind = next((kind for kind, classes in _BY_SQLSTATE if error.sqlstate[:2] in classes), OperationalError)
    message = "\n".join(
        [error.message, *(f"{name}: {text}" for name, text in (("DETAIL", error.detail), ("HINT", error.hint)) if text)]
    )
    return kind(message, error)
