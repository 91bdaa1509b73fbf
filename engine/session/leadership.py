"""A session on a node of a cluster: what it is told when the node is deposed, and what it takes over from another node
on which its transactions have run.

    the node is deposed     `lose_transaction`: what runs ends with the error. A client that has said nothing yet is
                            *owed* it: the error answers the next statement, for nobody may be told COMMIT's ordinary
                            tag of a transaction that is gone. A block in which nothing has been done goes on
    after a wait            `check_leads`: a process may have been stopped while its statement waited, and another node
                            may lead by now. Between the check and what is read nothing is awaited, so what is read was
                            true when the node still led
    carried transactions    (wire/carrying.py) `block_image` says how the block was opened, so that it can be opened at
                            the leader; settings, statements and the block's end come back by `adopt_*`, `end_block`
                            and `fail_block`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from catalog.errors import SqlError
from catalog.schema import Catalog
from engine.replica import HOME
from engine.session.errors import canceled
from engine.session.notifications import UNLISTEN_ALL, Action, SessionNotifications
from engine.session.plan import UnplannedStatement
from engine.session.prepared import Prepared
from engine.session.settings import script
from engine.session.transactions import TransactionalSession
from engine.sql import ast
from engine.txn.interface import LockWait
from engine.txn.transaction import Transaction

NO_CATALOG = Catalog(database=0)  # of statements that are not planned


def deposed() -> SqlError:
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
        "commits of this session that it did not wait for may be lost: the leadership of their tablespace moved",
        hint="They were made, or read, with synchronous_commit = off. Connect again and look what is there.",
        severity="FATAL",
    )


class LedSession(TransactionalSession):
    alone: frozenset[bytes] | None = None
    """The tablespaces, by id, that its transaction has to do with, on a node that does not lead pg_default."""
    must_lead = False  # what it runs is for the leader alone: set by the connection, which asks before each batch
    owed: SqlError | None = None  # how the transaction has ended, which the client does not know
    carried = ""  # '' | active, or the status of ReadyForQuery (I T E): of a session that is carried to another node
    on_deposed: Callable[[], None] | None = None
    on_lead: Callable[[], None] | None = None  # the node has become the leader
    on_durable: Callable[[], None] | None = None  # what its client was told of early is durable
    canceler: Callable[[SqlError], None] | None = None  # cancels what another node runs for the session
    terminator: Callable[[SqlError], None] | None = None  # ends the connection when it is idle
    on_told: Callable[[], None] | None = None  # a notification has come; None: the client could not be sent it
    tell_now: Callable[[SqlError], None] | None = None  # sends a notice while a statement waits; None: nobody is told
    listens_elsewhere: list[Action] | None = None  # of a carried session: what the client's own node is to do

    def cancel(self, error: SqlError | None = None) -> None:
        """Ends the running statement with 57014, or with this error. A commit under way goes on."""
        if self.canceler is not None:
            self.canceler(error or canceled())
        elif self.task is not None and not self.task.done():
            self.cancel_error = error or canceled()
            if self.running:
                self.task.cancel()
        elif self.transaction is not None and self.transaction.waiting is not None:
            self.transaction.waiting.cancel(error or canceled())
        else:
            for work in self.work.values():
                work.cancel(error or canceled())
            if error is not None and error.severity == "FATAL" and self.terminator is not None:
                self.terminator(error)

    @property
    def notifications(self) -> SessionNotifications:
        """The session's part in LISTEN and NOTIFY."""
        if self.notifying is None:
            self.notifying = SessionNotifications(self)
        return self.notifying

    @property
    def waits_for_nothing(self) -> bool:
        """Whether everything that its client was told of is durable (deferring.py)."""
        return True

    def check_leads(self) -> None:
        """Raises 40001 for work that only the leader may do, on a node that leads no more."""
        if self.must_lead and not self.leads_on:
            raise deposed()

    @property
    def stands_on(self) -> frozenset[bytes]:
        """The tablespaces, by id (pg_default: HOME), that the node must lead for what the session has done in its
        transaction."""
        transaction = self.transaction
        if transaction is None:
            return frozenset()
        found = self.node.held.stood_on(transaction)
        return found | ({HOME} if self.alone is None else self.alone)

    @property
    def leads_on(self) -> bool:
        """Whether this node still leads what the session stands on."""
        replica = self.node.replica
        return replica is None or replica.leads or replica.leads_in(self.stands_on)

    async def wait_for(self, wait: LockWait) -> None:
        await super().wait_for(wait)
        self.check_leads()

    def lose_transaction(self, error: SqlError) -> None:
        """The node leads no more: whatever the session runs ends with the error, and its transaction is over; a block
        stays failed until its end. Its temporary tables are gone: the next leader drops them."""
        self.temporary_schema = None
        transaction = self.transaction
        if transaction is not None and self.canceler is None and not self._goes_on(transaction):
            if self.status != "E":  # else its client knows, and what may be running is the block's end
                told = transaction.waiting is not None or (self.task is not None and not self.task.done())
                if transaction.waiting is not None:
                    transaction.waiting.cancel(error)
                self.cancel(error)
                if not told:
                    self.owed = error
            if self.in_block:
                self._fail_block()
            else:
                self._abort()
        if self.on_deposed is not None:
            self.on_deposed()

    def _goes_on(self, transaction: Transaction) -> bool:
        idle = self.task is None or self.task.done()
        return self.in_block and idle and transaction.waiting is None and is_untouched(transaction)

    def _fail_block(self) -> None:
        transaction = self.transaction
        assert transaction is not None
        transaction.savepoints.clear()
        if self.status != "E":
            self.status = "E"
            self._let_go(transaction)
            self._close_portals(committed=False)

    # ---- carried transactions ---------------------------------------------------------------------------------------

    def block_image(self) -> list[str]:
        """The statements that open the session's block as it is now; nothing outside a block."""
        transaction = self.transaction
        if transaction is None or not self.in_block:
            return []
        mode = "READ ONLY" if transaction.read_only else "READ WRITE"
        mode += " DEFERRABLE" if self.setting("transaction_deferrable") == "on" else " NOT DEFERRABLE"
        statements = [f"BEGIN ISOLATION LEVEL {transaction.isolation} {mode}"]
        state = self.settings.begun()
        listened = 0
        for point in [*transaction.savepoints, None]:
            if self.notifying is not None:
                actions = self.notifying.script(point)
                statements += [_listen(*action) for action in actions[listened:]]
                listened = len(actions)
            if point is None:
                break
            if point.settings is not None:
                statements += script(state, point.settings)
                state = point.settings
            statements.append("SAVEPOINT " + _quoted(point.name))
        return statements + script(state, self.settings.state())

    def adopt_statement(self, name: bytes, sql: bytes, types: tuple[int, ...]) -> None:
        """It was prepared at the leader: it is planned here when it is first used here."""
        statement = ast.Statement(ast.Node(), sql.decode(errors="replace"))
        self.prepared[name] = Prepared.of(statement, types, NO_CATALOG, self.key, UnplannedStatement())

    def adopt_settings(self, values: Mapping[str, str]) -> None:
        """Settings as the leader has them after a transaction (lower-case names); the client has been told."""
        self.settings.adopt(values)
        self.settings.changed.clear()

    def end_block(self) -> None:
        """The block, in which nothing was done here, has ended at the leader, and the client has been told."""
        self._abort()
        self.settings.changed.clear()

    def fail_block(self, error: SqlError | None) -> None:
        """The session is in a failed block, whether it was begun here or at the leader; the client is owed an error."""
        if not self.in_block:
            self._abort()
            self.begin_implicit()
            self.in_block = True
            self.status = "T"
        self._fail_block()
        self.owed = error

    def forgive(self, ended: bool) -> None:
        """The client has been told what it was owed, or has rolled back by itself. `ended`: by what it has said the
        block ends as well."""
        self.owed = None
        if ended:
            self._abort()


def _listen(action: str, channel: str) -> str:
    if action == UNLISTEN_ALL:
        return "UNLISTEN *"
    return f"{action.upper()} {_quoted(channel)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
