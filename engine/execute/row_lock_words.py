"""SELECT ... FOR UPDATE and its kin: the locks that the words mean, and what is said where a row cannot be locked."""

from __future__ import annotations

from collections.abc import Callable

from catalog.errors import SqlError
from engine.txn.interface import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE

STRENGTHS = {"update": UPDATE, "no key update": NO_KEY_UPDATE, "share": SHARE, "key share": KEY_SHARE}


def lock_refusal(table: str) -> Callable[[SqlError], SqlError]:
    """Makes what says of a row's lock what PostgreSQL says: 55P03 names the table; and a row that somebody has deleted
    was "updated" for whoever only locks it (ExecLockRows)."""

    def as_row_error(error: SqlError) -> SqlError:
        if error.sqlstate == "55P03":
            return SqlError("55P03", f'could not obtain lock on row in relation "{table}"')
        if error.sqlstate == "40001":
            return SqlError("40001", error.message.replace("concurrent delete", "concurrent update"))
        return error

    return as_row_error
