"""PEP 249's exceptions, each with the fields of a PostgreSQL error: SQLSTATE, detail, hint, names.

The exception of each class of SQLSTATEs is the same as in psycopg, so that code can move between the two.
"""

from __future__ import annotations

from catalog.errors import SqlError


class Warning(Exception):  # noqa: N818 - PEP 249's name
    """PEP 249's class. It is never raised: notices are in `Connection.notices`."""


class Error(Exception):
    """The base class. `sqlstate` has PostgreSQL's five characters, or '' for an error that did not come from the
    database."""

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
    """Wrong use of the interface, such as a closed cursor or a missing result."""


class DatabaseError(Error):
    """An error that the database reports."""


class DataError(DatabaseError):
    """A value that is out of range, or invalid for its type."""


class OperationalError(DatabaseError):
    """An error of the database's state: locks, serialization failures, limits, a directory that is in use."""


class IntegrityError(DatabaseError):
    """A constraint is violated."""


class InternalError(DatabaseError):
    """A transaction in the wrong state, or an internal error."""


class ProgrammingError(DatabaseError):
    """An error in the statement: its syntax, names, types, privileges."""


class NotSupportedError(DatabaseError):
    """An operation that is not supported. The message names it."""


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
