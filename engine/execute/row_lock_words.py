"""SELECT ... FOR UPDATE and similar: the lock of each clause, all locks together, and the error of a row that cannot be
locked."""

from __future__ import annotations

from collections.abc import Callable

from catalog.errors import SqlError
from engine.sql import tree
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


def lock_all(query: tree.Query) -> str:
    """Source of the attempt to lock the rows in `found` together (Transaction.lock_unchanged), which begin with a key
    and a value for each mark; '' for a query that locks some of them only, or in several ways."""
    strengths = {STRENGTHS[mark.strength] for mark in query.row_marks}
    if len(strengths) > 1 or query.limit is not None or query.offset is not None:
        return ""
    keys = "".join(f"row[{2 * place}], " for place in range(len(query.row_marks)))
    given = "row[0] for row in found" if len(query.row_marks) == 1 else f"key for row in found for key in ({keys})"
    return f"context.transaction.lock_unchanged([{given}], {strengths.pop()})"
