"""Transactions, locks, sequences and the commit queue: PostgreSQL's behaviour, over a simpler machine.

    interface.py        transactions as executors see them
    transaction.py      a private write set over a snapshot, savepoints, and `put`, which counts memory
    row_locks.py        locks of rows and keys;  locks.py  who holds what and who waits;  deadlocks.py  deadlocks that
                        another order of queues avoids
    serializable.py     SERIALIZABLE: watches for dangerous structures. DEFERRABLE: engine/session/safe_snapshots.py
    commit.py           the commit queue: LSN, memtable, changelog, acknowledgement
    joint.py            the same over several tablespaces
    two_phase.py        prepared transactions; engine/session/two_phase.py says what may be prepared
    sequences.py        where each sequence stands
    overlay.py          a transaction's own rows over those that it sees
    statement_view.py   a transaction as the parts of one statement see it

Writes are private until COMMIT. Locks of rows and keys are taken at once, and a graph of waits finds deadlocks. READ
COMMITTED has a snapshot for each statement. REPEATABLE READ is snapshot isolation, and the first updater wins.
SERIALIZABLE is that, with a watch for dangerous structures among reads and writes.

Locks are released when a commit is sequenced; those of a schema change when it is durable and published, so that nobody
plans with tables or indexes whose rows cannot be read yet. Statements that waited for these are planned again. Clients
are acknowledged in the order of LSNs, after durability. Plain reads see durable rows only.

Only sessions with another `synchronous_commit` than `on` are told earlier or later, and see further. They are of a
class of their own (engine/session/asynchronous_commit.py), so that the others do not pay for it. Waiting for replicas:
replication/log/remote_apply.py.
"""
