"""The database: statements, transactions, storage, and the columnar path. engine and replication never import each
other; engine/storage/interface.py declares their interface.

        node/         state that all sessions of a node share; shoal/serve.py makes it
        session/      one connection: settings, transaction, prepared statements, and the cached path
        statements/   planning and execution of each kind of statement
        system_views/ the content of pg_catalog and information_schema as a session sees it
        connect.py    opens a session on a node: connects the packages that a session needs
        sql/          text -> syntax tree -> analysed tree
        execute/      the row path: an analysed tree -> a Python function over stored rows
        columnar/     the columnar path: DuckDB SQL, the worker process that runs it, and the updates of its tables
        ddl/          schema changes
        bulk/         COPY and statements that write many rows, in whole columns
        txn/          transactions, locks, sequences, the commit queue
        storage/      memtable, LMDB, bulk runs, recovery
        partitions/   partitioned tables and inheritance
        changes/      change streams
        foreign/      foreign tables, whose rows are on other servers
        checkpoint/   checkpoints as open files
        past/         the database as it was at an LSN
        statistics/   counters of a node's work

    replica.py          the interface between a node and its replica in a cluster
    cluster_view.py     a node's knowledge of its cluster: replication/observer.py watches the cluster,
                        shoal/cluster/cluster_state.py fills this in, catalog/system/cluster.py shows it as shoal_nodes
                        and other views
    foreground.py       slows long work down in favour of short statements;  priority.py  threads of lower priority
    checks.py           comparison of replicas by digests (engine/checkpoint/digest.py, replication/checks.py)
    index_checks.py, columnar_checks.py    comparison of indexes and of the worker's columns with rows
                        (shoal/commands/check_indexes.py)
    configuration.py    the server's configuration as sessions see it
    pandas_import.py    prevents pyarrow from importing pandas

**Several tablespaces.** A tablespace is one changelog, one LMDB environment and the memtables between them
(storage/tablespace.py). The catalog, counters and sequences are in pg_default. While a node has only that, `Node.store`
is its `Tablespace`, without any cost for others. The first CREATE TABLESPACE replaces it by `Stores`
(node/tablespaces.py), which has the same interface and sends a key to the tablespace of its storage id.

- An LSN then is a *position*, slot << 48 | LSN; positions of pg_default are plain LSNs. A `Moment` is one LSN in each
  tablespace: the visible state of a snapshot, or the durable state. A position compares with a moment within its own
  tablespace (storage/moments.py).
- A commit over several tablespaces is an entry in each of them that names all parts. A part is committed when
  everything before it is committed, and the commit is acknowledged when all its parts are committed. Then all parts
  become visible in one turn of the loop. After a crash, an entry whose other part is missing is removed with all
  entries after it (storage/joints.py).
- A transaction may read a commit that is sequenced but not durable, in a tablespace where it writes nothing. It then
  gets an empty part in that tablespace, because it must not survive without that commit. Records of sequences count as
  read.
- In a cluster, each tablespace may have its own leader. The text of a statement and the schema determine its
  tablespaces (statements/statement_tablespaces.py, node/affected_tablespaces.py). The connection chooses the leader
  (`_choose_leader` in wire/leader_forwarding.py). The leader of pg_default takes over tablespaces that it lacks
  (shoal/cluster/leadership.py). `Stores.guard` protects the tablespaces that a node does not lead: writes, and reads of
  sequenced entries, fail with 40001 there.
- In a cluster, a tablespace may be on some nodes only (shoal/cluster/replica_placement.py). A running node adds one as
  follows: it restores and follows the tablespace, invisibly, while the other tablespaces continue. It attaches the
  tablespace in the turn in which it has reached all transactions that the others have shown (`expect`, `awaited_lsn`
  and `join` of `ApplyOrder`, shoal/cluster/apply_order.py). So a transaction is visible whole or not at all there too.
  Tables of a tablespace that the node lacks have no route (57P03), and the connection forwards their readers to the
  leader, which holds everything.
- CREATE TABLESPACE makes the storage under a mark, commits, and removes the mark. DROP sets the mark, commits, and
  removes the storage. At a start, the catalog decides about marked storage (storage/directories.py). A single node with
  history also keeps the changelog of a dropped tablespace, under a slot of its own, so that a moment before the drop
  has an LSN in it (`Gone` in past/far.py).
- Rows of the tablespace record which tables a branch shares with its parent there. So each tablespace is complete by
  itself: its checkpoints, its replicas, its history. A branch has a part in the changelog of every tablespace in which
  its parent has tables. So a later writer, which keeps the rows that it overwrites for the branch, comes after it.

**Threads and processes.** One thread, the event loop, is the *engine's thread*: it owns sessions, catalog, locks,
memtables and the row path. Beside it:

    flush              a thread that writes memtables into LMDB. A process of about a second writes large layers and
                       deletes large ranges (storage/lmdb_writer.py). If that process is killed or hangs, the thread
                       does its work (catalog/processes.py)
    bulk work          a thread for a statement (bulk/thread.py), in Arrow and NumPy, which release the interpreter
    changelog          a thread for new and retired segments; if the kernel cannot sync by itself, another one syncs
    long values        a process for each JSON text of more than 2 MB, and for each array, row, multirange, path, text
                       search value and similar of 256 kB or 1 MB (catalog/types/beside.py). It ends with its
                       statement and has its query_memory_limit (catalog/processes.py)
    the worker         one process with DuckDB (columnar/worker). It reads LMDB itself when it first builds a table, and
                       gets every later change from the engine

The worker (columnar/worker/sandbox.py) and threads of bulk work (priority.py) have a lower priority. If short
statements still wait for processors, foreground.py slows long work down. A cancelled query of the worker leaves its
calls of Python functions between two steps (columnar/worker/calls.py). The engine checks that the worker answers while
a cancelled query is ending, and when a statement ends that waits for the loading of a table. Another worker replaces
it, and runs queries that have sent nothing yet, in these cases: it does not answer, because one step of C holds its
interpreter (columnar/worker_answers.py); it does nothing while a statement waits for it (columnar/watch.py); one of its
own threads fails.

Threads that run the engine have stacks of 64 MB, for Python's recursion limit of 20,000 (shoal/stacks.py). The switch
interval is 0.1 ms (shoal/serve.py): at Python's default a thread that needs the interpreter would wait up to 5 ms.

**Branches.** ddl/branches.py and statements/branches.py make them (`InBackup`: from a backup).
storage/branch_storage.py shares storage with the parent. bulk/branch_preservation.py does the same for statements that
write many rows, and bulk/copy_run.py copies rows of another database.

**Sizes.** node/sizes.py computes sizes of tables and databases; storage/pages.py counts LMDB's pages;
execute/written.py counts the rows that were written. storage/holes.py, storage/flush.py and statements/vacuum.py return
space to the file system; space_requests.py repeats on followers what their leader does.
"""
