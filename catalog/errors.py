"""The one exception that a client receives, and its SQLSTATE.

Every error has the fields of PostgreSQL's ErrorResponse (PostgreSQL 16 manual, 55.8). The engine raises `SqlError`, and
wire/ converts it to a message. `as_sql_error` converts other exceptions: errors of the operating system about files,
and defects of Shoal, which become XX000.
"""

from __future__ import annotations

import errno
import os
from typing import NoReturn


class SqlError(Exception):
    """An error with a SQLSTATE (five characters: PostgreSQL manual, Appendix A).

    `position` counts the characters of the statement from 1, or those of `internal_query` if the text is not the
    client's; None: no position. `severity` is ERROR or FATAL; FATAL also closes the connection. `routine` is the
    function in PostgreSQL's source that reports the error, for the few errors that drivers recognize by it.
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
        internal_query: str | None = None,
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
        self.internal_query = internal_query

    @property
    def client_position(self) -> int | None:
        """The position in the client's own text."""
        return self.position if self.internal_query is None else None

    def __str__(self) -> str:
        return f"{self.sqlstate}: {self.message}"


def not_supported(feature: str, *, position: int | None = None, hint: str | None = None) -> NoReturn:
    """Raises 0A000 with the name of an unsupported feature. Shoal never ignores such a feature or runs another one."""
    raise SqlError("0A000", f"{feature} is not supported", position=position, hint=hint)


def stack_depth_exceeded() -> SqlError:
    """54001 for a statement, or a value in it, that is nested too deeply."""
    return SqlError("54001", "stack depth limit exceeded", hint="Simplify the statement: it nests too deeply.")


DISK_FULL = "53100"
_FILE_ERRORS = {
    errno.ENOSPC: (DISK_FULL, "Free or add space on the file system, and run the statement again."),
    errno.EDQUOT: (DISK_FULL, "The quota of the server's user is used up: raise it, and run the statement again."),
    errno.EFBIG: (DISK_FULL, "The server's process may write no larger files (ulimit -f)."),
    errno.EMFILE: ("53000", "Raise the limit of open files of the server's process (ulimit -n), or run less at once."),
    errno.ENFILE: ("53000", "The machine has no more open files to give (fs.file-max)."),
    errno.ENOMEM: ("53200", "The machine has no more memory to give."),
    errno.EACCES: ("42501", None), errno.EPERM: ("42501", None), errno.EROFS: ("42501", None),
    errno.ENOENT: ("58P01", None), errno.EEXIST: ("58P02", None),
}  # fmt: skip
"""SQLSTATEs as in PostgreSQL's errcode_for_file_access, and hints."""


def file_error(error: OSError, what: str = "a file of the server cannot be read or written") -> SqlError:
    """The error for the client after an error of the operating system about a file."""
    number = error.errno or 0
    sqlstate, hint = _FILE_ERRORS.get(number, ("58030", None))
    place = f' "{error.filename}"' if error.filename is not None else ""
    return SqlError(sqlstate, f"{what}{place}: {os.strerror(number) if number else error}", hint=hint)


def as_sql_error(error: BaseException) -> SqlError:
    """The error for the client after any exception. Unknown exceptions are defects (XX000)."""
    if isinstance(error, SqlError):
        return error
    if isinstance(error, OSError) and error.errno in _FILE_ERRORS | {errno.EIO: None}:
        return file_error(error)
    if isinstance(error, RecursionError):
        return stack_depth_exceeded()
    if isinstance(error, MemoryError):
        return SqlError("53200", "out of memory", detail="The server's process has no more memory to take.")
    return SqlError("XX000", f"internal error: {type(error).__name__}: {error}")


def forget_frames(error: BaseException) -> None:
    """Removes the traceback, cause and context of an error that was reported, so that the variables of its frames
    (rows, maps of files, readers of pages) are freed now. Frames and their error often refer to each other, and the
    cyclic collector runs too rarely to free them in time."""
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is not None:
            one.__traceback__ = None
            behind += (one.__cause__, one.__context__)
            one.__cause__ = one.__context__ = None
