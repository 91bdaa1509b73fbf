"""SELECT ... FOR UPDATE and similar: the lock of each clause, and the error of a row that cannot be locked."""

from __future__ import annotations

from collections.abc import Callable

from catalog.errors import SqlError
from engine.txn.interface import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE

STRENGTHS = {"update": UPDATE, "no key update": NO_KEY_UPDATE, "share": SHARE, "key share": KEY_SHARE}


def lock_refusal(table: str) -> Callable[[SqlError], SqlError]:
    """Converts the error of a row lock to PostgreSQL's words: 55P03 names the table; and for a transaction that only
    locks a row, a deleted row was "updated" (ExecLockRows)."""

    def as_row_error(error: SqlError) -> SqlError:
        if error.sqlstate == "55P03":
            return SqlError("55P03", f'could not obtain lock on row in relation "{table}"')
        if error.sqlstate == "40001":
            return SqlError("40001", error.message.replace("concurrent delete", "concurrent update"))
        return error

    return as_row_error
