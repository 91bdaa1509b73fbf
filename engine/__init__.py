"""The database: statements, transactions, storage, and the columnar path. replication/ is its sibling; neither imports
the other, and engine/storage/interface.py declares what they exchange.

    node/         what all sessions of a node share; shoal/serve.py makes it
    session/      one connection: settings, transaction, prepared statements, and the cached path
    statements/   how each kind of statement is planned, and how it runs
    system_views/ what a session sees of the system: the content of pg_catalog and information_schema
    connect.py    opens a session on a node: joins the packages that a session needs
    sql/          text -> syntax tree -> analysed tree
    execute/      the row path: an analysed tree -> a Python function over stored rows
    columnar/     the columnar path: DuckDB SQL, the worker process that runs it, and what keeps its tables up to date
    ddl/          schema changes
    bulk/         COPY and statements that write many rows, in whole columns
    txn/          transactions, locks, sequences, the commit queue
    storage/      memtable, LMDB, bulk runs, recovery
    partitions/   partitioned tables and inheritance
    changes/      change streams
    checkpoint/   checkpoints as open files
    past/         the database as it was at an LSN
    statistics/   what a node counts of its work

    replica.py          what a node asks of its part in a cluster
    cluster_view.py     what a node knows of its cluster: replication/observer.py watches it,
                        shoal/cluster/cluster_state.py fills this in, catalog/system/cluster.py shows it as shoal_nodes
                        and other views
    foreground.py       long work gives way to short statements;  priority.py  threads with a lower priority
    checks.py           digests of replicas are compared (engine/checkpoint/digest.py, replication/checks.py)
    index_checks.py, columnar_checks.py    whether indexes and the worker's copies hold what the rows give
                        (shoal/commands/check_indexes.py)
    configuration.py    the server's configuration as sessions see it
    pandas_import.py    pyarrow is kept from importing pandas

**Several tablespaces.** A tablespace is one changelog, one LMDB environment and the memtables between them
(storage/tablespace.py). The catalog, counters and sequences are in pg_default. While a node has only that, `Node.store`
is its `Tablespace`, and nothing is paid for others. The first CREATE TABLESPACE puts `Stores` in its place
(node/tablespaces.py): the same interface, which sends a key to the tablespace where its storage id is registered.

- An LSN then is a *position*, slot << 48 | LSN, so pg_default's are plain. What a snapshot sees, and what is durable,
  is a `Moment`: one LSN in each tablespace. A position compares with a moment within its own tablespace
  (storage/moments.py).
- A commit over several tablespaces is an entry in each that names all parts. A changelog counts its part when
  everything before it is committed, and nobody is told before all parts count. Then all show it in one turn of the
  loop. After a crash, an entry that lacks a part is cut off with everything behind it (storage/joints.py).
- A commit may have read what another one sequenced, but what is not yet durable, in a tablespace where it writes
  nothing. It gets an empty part there, because it cannot survive without what it stands on. Records of sequences count
  as read.
- In a cluster, another node may lead each tablespace. The statement's text and the schema tell which ones it concerns
  (statements/statement_tablespaces.py, node/affected_tablespaces.py). The connection chooses the leader
  (`_choose_leader` in wire/leader_forwarding.py). The leader of pg_default gathers what it lacks
  (shoal/cluster/leadership.py). `Stores.guard` protects what a node does not lead: to write there, or to look at what
  is sequenced, fails with 40001, whatever the text has told.
- In a cluster, a tablespace may be on some nodes only (shoal/cluster/replica_placement.py). A node gets one while it
  runs: restored and followed, unseen, while the others do not wait for it. It is attached in the turn in which it is as
  far as all that they have shown of its transactions (`expect`, `awaited_lsn` and `join` of `ApplyOrder`,
  shoal/cluster/apply_order.py). So a transaction is seen whole or not at all on it too. Tables of what a node lacks are
  routed nowhere (57P03), and the connection carries what reads them to the leader, which holds everything.
- CREATE makes the storage under a mark, commits, and takes the mark away. DROP sets the mark, commits, and removes the
  storage. At a start, the catalog decides what is marked (storage/directories.py). A node alone that keeps its past
  also keeps the changelog of what was dropped, under a slot of its own, so that a moment before the drop has an LSN in
  it (`Gone` in past/far.py).
- Which tables a branch shares with its parent is told by rows of the tablespace in which both lie, so each tablespace
  is whole by itself: its checkpoints, its replicas, its past. A branch has a part in the changelog of every tablespace
  in which its parent has tables. So whoever writes there later, and keeps for the branch what he overwrites, comes
  after it.

**Threads and processes.** One thread, the event loop, is the *engine's thread*: it owns sessions, catalog, locks,
memtables and the row path. Beside it:

    flush              a thread that writes memtables into LMDB. It leaves large layers, and large ranges that are to be
                       deleted, to a process of a second or so (storage/lmdb_writer.py); what one that is killed, or
                       does nothing more, was to do the thread does (catalog/processes.py)
    bulk work          a thread for a statement (bulk/thread.py), in Arrow and NumPy, which release the interpreter
    changelog          a thread for new and retired segments; where the kernel cannot sync by itself, another one syncs
    long values        a process for each JSON text of more than 2 MB, and for each array, row, multirange, path, text
                       search value and the like of 256 kB or 1 MB (catalog/types/beside.py). It ends with its
                       statement and has its query_memory_limit (catalog/processes.py)
    the worker         one process with DuckDB (columnar/worker). It reads LMDB itself when it first builds a table, and
                       gets every later change from the engine

The worker has a lower priority (columnar/worker/sandbox.py), and so have threads of bulk work (priority.py). Where
short statements wait for processors all the same, long work gives way to them altogether (foreground.py). A cancelled
query of the worker leaves its calls of Python functions between two steps (columnar/worker/calls.py). The worker is
asked whether it hears when a query is cancelled, until that has ended, and when a statement ends that waits for a table
to be loaded. If it does not answer, because one step of C keeps its interpreter (columnar/worker_answers.py), if it
does nothing while somebody waits for it (columnar/watch.py), or if one of its own threads fails, another worker takes
its place, and queries of which nothing has been sent run there.

Threads that run the engine have stacks of 64 MB, for Python's recursion limit of 20,000 (shoal/stacks.py). The switch
interval is 0.1 ms (shoal/serve.py): at Python's default a thread that needs the interpreter would wait up to 5 ms.

**Branches.** ddl/branches.py and statements/branches.py make them (`InBackup`: out of a backup).
storage/branch_storage.py shares storage with the parent. bulk/branch_preservation.py does the same for statements that
write many rows, and bulk/copy_run.py copies rows of another database.

**Sizes.** node/sizes.py says how large tables and databases are; storage/pages.py counts LMDB's pages;
execute/written.py counts the rows that were written. storage/holes.py, storage/flush.py and statements/vacuum.py give
space back to the file system, space_requests.py has followers do what their leader does.
"""
