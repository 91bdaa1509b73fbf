"""What SHOW says of a transaction's modes, inside a block and outside."""

from __future__ import annotations

from tests.engine.session.conftest import Pair


def test_modes_are_shown_as_in_postgresql(pair: Pair) -> None:
    pair.same(
        "set default_transaction_read_only = on", "show transaction_read_only", "begin read write",
        "show transaction_read_only", "rollback", "set session characteristics as transaction read write",
        "show transaction_read_only", "set default_transaction_isolation = 'read uncommitted'",
        "show transaction isolation level", "begin", "show transaction isolation level", "rollback",
        "begin isolation level read committed", "show transaction_isolation", "commit and chain",
        "show transaction_isolation", "rollback", "begin isolation level repeatable read",
        "show transaction_isolation", "rollback", "set default_transaction_isolation = 'repeatable read'",
        "begin isolation level read uncommitted", "show transaction_isolation", "commit and chain",
        "show transaction_isolation", "rollback", "reset default_transaction_isolation",
    )  # fmt: skip
