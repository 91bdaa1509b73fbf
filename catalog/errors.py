"""The one exception that a client receives, and its SQLSTATE.

Every error carries what PostgreSQL's ErrorResponse carries (PostgreSQL 16 manual, 55.8). Code below the wire raises
`SqlError`; the wire turns it into the message. Whatever else is raised is an error of the operating system about a
file, or a defect of ours, which becomes XX000 (`as_sql_error`).
"""

from __future__ import annotations

import errno
import os
from typing import NoReturn


class SqlError(Exception):
    """An error with a SQLSTATE (five characters: PostgreSQL manual, Appendix A).

    `position` counts characters of the statement from 1; None where there is none. `severity` is ERROR or FATAL;
    `internal_query` is the text that it counts in where that is not the client's.
    A FATAL error also closes the connection. `routine` is the function of PostgreSQL's source that reports it, for the
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
    """Refuses what Shoal does not do yet (0A000), by name: never ignored, never run as something else."""
    raise SqlError("0A000", f"{feature} is not supported", position=position, hint=hint)


def stack_depth_exceeded() -> SqlError:
    """54001, of a statement or of a value that it has to do with."""
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
"""SQLSTATEs as PostgreSQL's errcode_for_file_access has them, and what to do."""


def file_error(error: OSError, what: str = "a file of the server cannot be read or written") -> SqlError:
    """What a client is told of an error of the operating system about a file."""
    number = error.errno or 0
    sqlstate, hint = _FILE_ERRORS.get(number, ("58030", None))
    place = f' "{error.filename}"' if error.filename is not None else ""
    return SqlError(sqlstate, f"{what}{place}: {os.strerror(number) if number else error}", hint=hint)


def as_sql_error(error: BaseException) -> SqlError:
    """What a client is told of any error: what is neither known nor the operating system's is a defect (XX000)."""
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
    """The error has been told, and needs the frames that it came through no more, nor the errors behind it. What was
    in their variables (rows, maps of files, readers of pages) goes now: frames and their error often refer to each
    other, and the cyclic collector comes by too seldom to leave that to it."""
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is not None:
            one.__traceback__ = None
            behind += (one.__cause__, one.__context__)
            one.__cause__ = one.__context__ = None
