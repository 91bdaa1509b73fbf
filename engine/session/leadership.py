"""A session on a node of a cluster: what it is told when the node is deposed, and what it takes over from another node
on which its transactions have run.

    the node is deposed     `lose_transaction`: what runs ends with the error. A client that has said nothing yet is
                            *owed* it: the error answers the next statement, for nobody may be told COMMIT's ordinary
                            tag of a transaction that is gone. A block in which nothing has been done goes on
    after a wait            `check`: a process may have been stopped while its statement waited, and another node
                            may lead by now. Between the check and what is read nothing is awaited, so what is read was
                            true when the node still led
    carried transactions    (wire/leader_forwarding.py) `block_image` says how the block was opened, so that it can be
                            opened at the leader; settings, statements and the block's end come back by `adopt_*`,
                            `end_block` and `fail_block`
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
    """What a statement ends with whose node leads no more."""
    return SqlError(
        "40001",
        "this node no longer leads: the transaction was rolled back",
        hint="Nothing of the transaction was committed. Retry it.",
    )


def is_untouched(transaction: Transaction) -> bool:
    """Whether nothing of a transaction would be missed if it began anew elsewhere."""
    return not (transaction.has_writes or transaction.has_snapshot or transaction.table_locks or transaction.row_locks)


def commits_lost() -> SqlError:
    """What ends a session whose last commits did not survive a fail-over, or may not have."""
    return SqlError(
        "08006",
        "asynchronous commits of this session may be lost: the leadership of their tablespace has moved",
        hint="This session made or read them with synchronous_commit = off. Connect again and check the data.",
        severity="FATAL",
    )


class Leadership:
    """Of one session. `owed`: how the transaction has ended, which the client does not know. `must_lead`: what it runs
    is for the leader alone; the connection sets it, which asks before each batch. `alone`: the tablespaces, by id, that
    its transaction has to do with, on a node that does not lead pg_default."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.alone: frozenset[bytes] | None = None
        self.must_lead = False
        self.owed: SqlError | None = None

    def check(self) -> None:
        """Raises 40001 for work that only the leader may do, on a node that leads no more."""
        if self.must_lead and not self.leads_on:
            raise deposed_error()

    @property
    def stands_on(self) -> frozenset[bytes]:
        """The tablespaces, by id (pg_default: HOME), that the node must lead for what the session has done in its
        transaction."""
        transaction = self._session.transaction
        if transaction is None:
            return frozenset()
        found = self._session.node.held.stood_on(transaction)
        return found | ({HOME} if self.alone is None else self.alone)

    @property
    def leads_on(self) -> bool:
        """Whether this node still leads what the session stands on."""
        replica = self._session.node.replica
        return replica is None or replica.leads or replica.leads_in(self.stands_on)

    def lose_transaction(self, error: SqlError) -> None:
        """The node leads no more: whatever the session runs ends with the error, and its transaction is over; a block
        stays failed until its end. Its temporary tables are gone: the next leader drops them."""
        session = self._session
        session.temporary_schema = None
        transaction = session.transaction
        if transaction is not None and session.client.canceler is None and not self._goes_on(transaction):
            if session.status != "E":  # else its client knows, and what may be running is the block's end
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

    # ---- carried transactions ---------------------------------------------------------------------------------------

    def block_image(self) -> list[str]:
        """The statements that open the session's block as it is now; nothing outside a block."""
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
        """It was prepared at the leader: it is planned here when it is first used here."""
        session = self._session
        statement = ast.Statement(ast.Node(), sql.decode(errors="replace"))
        session.prepared[name] = Prepared.of(statement, types, NO_CATALOG, session.key, UnplannedStatement())

    def adopt_settings(self, values: Mapping[str, str]) -> None:
        """Settings as the leader has them after a transaction (lower-case names); the client has been told."""
        settings = self._session.settings
        settings.adopt(values)
        settings.changed.clear()

    def end_block(self) -> None:
        """The block, in which nothing was done here, has ended at the leader, and the client has been told."""
        self._session.transactions.abort()
        self._session.settings.changed.clear()

    def fail_block(self, error: SqlError | None) -> None:
        """The session is in a failed block, whether it was begun here or at the leader; the client is owed an error."""
        session = self._session
        if not session.in_block:
            session.transactions.abort()
            session.begin_implicit()
            session.in_block = True
            session.status = "T"
        session.transactions.fail_block()
        self.owed = error

    def forgive(self, ended: bool) -> None:
        """The client has been told what it was owed, or has rolled back by itself. `ended`: by what it has said the
        block ends as well."""
        self.owed = None
        if ended:
            self._session.transactions.abort()


def _listen(action: str, channel: str) -> str:
    if action == UNLISTEN_ALL:
        return "UNLISTEN *"
    return f"{action.upper()} {_quote(channel)}"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
