"""A session on a node of a cluster: loss of leadership, and transactions that ran on another node.

the node is deposed     `lose_transaction`: the running statement ends with the error. If the client is silent, the
                        error is *owed*: it answers the next statement, because COMMIT of a lost transaction must not
                        succeed. A block that has done nothing continues
after a wait            `check`: the process may have been stopped while its statement waited, and another node may
                        lead. Nothing is awaited between the check and the reads, so the reads belong to the time
                        when the node still led
forwarded transactions  (wire/leader_forwarding.py) `block_image` describes the opening of the block, to open it at
                        the leader; `adopt_*`, `end_block` and `fail_block` take back settings, statements and the
                        end of the block
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from catalog.catalog import Catalog
from catalog.errors import SqlError
from engine.replica import HOME
from engine.session.notifications import UNLISTEN_ALL
from engine.session.plan import UnplannedStatement
from engine.session.prepared import Prepared
from engine.session.settings import script
from engine.sql import ast
from engine.txn.transaction import Transaction

if TYPE_CHECKING:
    from engine.session.session import Session

NO_CATALOG = Catalog(database=0)  # of statements that are not planned


def deposed_error() -> SqlError:
    """The error of a statement whose node is no longer the leader."""
    return SqlError(
        "40001",
        "this node no longer leads: the transaction was rolled back",
        hint="Nothing of the transaction was committed. Retry it.",
    )


def is_untouched(transaction: Transaction) -> bool:
    """Whether a transaction has done nothing, so that it can begin again elsewhere."""
    return not (transaction.has_writes or transaction.has_snapshot or transaction.table_locks or transaction.row_locks)


def commits_lost() -> SqlError:
    """The error of a session whose last commits did not survive a fail-over, or may not have survived it."""
    return SqlError(
        "08006",
        "asynchronous commits of this session may be lost: the leadership of their tablespace has moved",
        hint="This session made or read them with synchronous_commit = off. Connect again and check the data.",
        severity="FATAL",
    )


class Leadership:
    """The leadership state of one session. `owed`: the error that the client has not received yet. `must_lead`: the
    statement must run on the leader; the connection sets it and asks before each batch. `alone`: the tablespaces, by
    id, that the transaction uses, on a node that does not lead pg_default."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.alone: frozenset[bytes] | None = None
        self.must_lead = False
        self.owed: SqlError | None = None

    def check(self) -> None:
        """Raises 40001 for work of the leader on a node that is no longer the leader."""
        if self.must_lead and not self.leads_on:
            raise deposed_error()

    @property
    def stands_on(self) -> frozenset[bytes]:
        """The tablespaces, by id (pg_default: HOME), that the node must lead for the work that the transaction has
        done."""
        transaction = self._session.transaction
        if transaction is None:
            return frozenset()
        found = self._session.node.held.stood_on(transaction)
        return found | ({HOME} if self.alone is None else self.alone)

    @property
    def leads_on(self) -> bool:
        """Whether this node still leads these tablespaces."""
        replica = self._session.node.replica
        return replica is None or replica.leads or replica.leads_in(self.stands_on)

    def lose_transaction(self, error: SqlError) -> None:
        """The node is no longer the leader: the running statement ends with the error, and the transaction is over. A
        block stays failed until its end. Its temporary tables are lost: the next leader drops them."""
        session = self._session
        session.temporary_schema = None
        transaction = session.transaction
        if transaction is not None and session.client.canceler is None and not self._goes_on(transaction):
            if session.status != "E":  # otherwise the client knows, and the block's end may be running
                told = transaction.waiting is not None or (session.task is not None and not session.task.done())
                if transaction.waiting is not None:
                    transaction.waiting.cancel(error)
                session.cancel(error)
                if not told:
                    self.owed = error
            if session.in_block:
                session.transactions.fail_block()
            else:
                session.transactions.abort()
        if session.client.on_deposed is not None:
            session.client.on_deposed()

    def _goes_on(self, transaction: Transaction) -> bool:
        session = self._session
        idle = session.task is None or session.task.done()
        return session.in_block and idle and transaction.waiting is None and is_untouched(transaction)

    # ---- forwarded transactions -------------------------------------------------------------------------------------

    def block_image(self) -> list[str]:
        """The statements that open the session's block in its present state; nothing outside a block."""
        session = self._session
        transaction = session.transaction
        if transaction is None or not session.in_block:
            return []
        mode = "READ ONLY" if transaction.read_only else "READ WRITE"
        mode += " DEFERRABLE" if session.variables.get("transaction_deferrable") == "on" else " NOT DEFERRABLE"
        statements = [f"BEGIN ISOLATION LEVEL {transaction.isolation} {mode}"]
        state = session.settings.begun()
        listened = 0
        for point in [*transaction.savepoints, None]:
            if session.notifying is not None:
                actions = session.notifying.script(point)
                statements += [_listen(*action) for action in actions[listened:]]
                listened = len(actions)
            if point is None:
                break
            if point.settings is not None:
                statements += script(state, point.settings)
                state = point.settings
            statements.append("SAVEPOINT " + _quote(point.name))
        return statements + script(state, session.settings.state())

    def adopt_statement(self, name: bytes, sql: bytes, types: tuple[int, ...]) -> None:
        """Records a statement that was prepared at the leader: its first use here plans it."""
        session = self._session
        statement = ast.Statement(ast.Node(), sql.decode(errors="replace"))
        session.prepared[name] = Prepared.of(statement, types, NO_CATALOG, session.key, UnplannedStatement())

    def adopt_settings(self, values: Mapping[str, str]) -> None:
        """Takes the settings of the leader after a transaction (lower-case names); the client knows them."""
        settings = self._session.settings
        settings.adopt(values)
        settings.changed.clear()

    def end_block(self) -> None:
        """The block, in which nothing was done here, has ended at the leader, and the client knows it."""
        self._session.transactions.abort()
        self._session.settings.changed.clear()

    def fail_block(self, error: SqlError | None) -> None:
        """Marks the block as failed, whether it began here or at the leader; the client is owed an error."""
        session = self._session
        if not session.in_block:
            session.transactions.abort()
            session.begin_implicit()
            session.in_block = True
            session.status = "T"
        session.transactions.fail_block()
        self.owed = error

    def forgive(self, ended: bool) -> None:
        """The client has received the owed error, or has rolled back by itself. `ended`: the same message also ends the
        block."""
        self.owed = None
        if ended:
            self._session.transactions.abort()


def _listen(action: str, channel: str) -> str:
    if action == UNLISTEN_ALL:
        return "UNLISTEN *"
    return f"{action.upper()} {_quote(channel)}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
