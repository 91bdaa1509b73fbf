"""Transactions, locks, sequences and the commit queue: PostgreSQL's behaviour with a simpler mechanism.

    interface.py        transactions as executors see them
    transaction.py      a private write set over a snapshot, savepoints, and `put`, which counts memory
    held_locks.py       the locks of a transaction: the base class of `Transaction`
    row_locks.py        locks of rows and keys;  locks.py  holders and waiters;  deadlocks.py  resolves deadlocks by
                        another order of queues
    serializable.py     SERIALIZABLE: detects dangerous structures. DEFERRABLE: engine/session/safe_snapshots.py
    commit.py           the commit queue: LSN, memtable, changelog, acknowledgement
    joint.py            the same over several tablespaces
    two_phase.py        prepared transactions; engine/session/two_phase.py checks them before
    sequences.py        the positions of sequences
    overlay.py          a transaction's own rows over its snapshot
    statement_view.py   a transaction as the parts of one statement see it

Writes are private until COMMIT. Locks of rows and keys are taken at once, and a graph of waits finds deadlocks. READ
COMMITTED has a snapshot for each statement. REPEATABLE READ is snapshot isolation, and the first updater wins.
SERIALIZABLE also detects dangerous structures among reads and writes.

Locks are released when a commit is sequenced. Those of a schema change are released when it is durable and published,
so that no session plans with tables or indexes whose rows cannot be read yet. Statements that waited for these locks
are planned again. Commits are acknowledged in the order of LSNs, after durability. Plain reads see durable rows only.

Only sessions whose `synchronous_commit` is not `on` are acknowledged earlier or later, and read state that is not
durable. They have classes of their own (engine/session/asynchronous_commit.py), so that other sessions have no extra
cost. replication/log/remote_apply.py waits for replicas.
"""
