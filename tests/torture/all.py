"""Every trial, in the order of the page."""

from __future__ import annotations

from tests.torture import columns, others, simulation
from tests.torture.crowd import trials as crowd
from tests.torture.durability import trials as durability
from tests.torture.holding import trials as holding
from tests.torture.isolation import trials as isolation
from tests.torture.security import trials as security
from tests.torture.smith import trials as smith
from tests.torture.trial import Trial

TRIALS = (
    Trial(
        "power",
        "Power cuts and full disks lose no acknowledged commit",
        "A commit that was not acknowledged is whole or absent. The data are on a loop device. Its image is copied "
        "while the process stands still, before each file operation and at random moments under load; then it is "
        "mounted and recovered.",
        2.0,
        durability.power_cuts,
        exact=True,
        least=12.0,
        enough=20,
    ),
    Trial(
        "kills",
        "kill -9 loses no acknowledged commit",
        "The process is killed at random moments of commits, flushes and changes of the changelog's segment.",
        1.0,
        durability.kills,
        exact=True,
        enough=10,
    ),
    Trial(
        "failures",
        "A failing file operation loses nothing and has a clear result",
        "A library between the process and the C library intercepts each write, sync, rename, link, removal and "
        "creation, including those of LMDB and Arrow. The operation fails once, fails with all that follow, finds the "
        "disk full, writes only a part, or is the last before a kill. The operations belong to commits, flushes, bulk "
        "loads, new changelog segments, a start after a crash, schema changes, tablespaces, branches, objects of a "
        "cluster's changelog, checkpoints, a new replica, and backups.",
        1.5,
        durability.failures,
        exact=True,
        least=12.0,
        enough=80,
    ),
    Trial(
        "flips",
        "Damaged files are detected",
        "One bit of each chosen byte is flipped in changelogs, bulk files, checkpoints (Parquet, catalog, manifest), "
        "backups, and objects and packs of a cluster's changelog. `shoal doctor` must name each file that a start "
        "refuses.",
        1.0,
        durability.flipped,
        exact=True,
        enough=1000,
    ),
    Trial(
        "isolation",
        "Each isolation level forbids its anomalies",
        "Elle's list-append test on one node: by primary keys and secondary indexes, on the row path and the columnar "
        "path, in two tablespaces. PostgreSQL is the control. *Components with cycles* counts groups of transactions "
        "that depend on each other in a cycle, by their worst anomaly. Allowed anomalies show that the histories are "
        "hard enough.",
        3.0,
        isolation.histories,
        least=10.0,
        enough=5000,
    ),
    Trial(
        "isolation-cluster",
        "Each isolation level forbids its anomalies in a cluster",
        "The same test on three nodes, with sessions on the leader and on followers.",
        2.0,
        isolation.cluster_histories,
        least=14.0,
        enough=1000,
    ),
    Trial(
        "isolation-named",
        "Named anomalies and row locks are those of PostgreSQL",
        "Hermitage's scenarios as scripts of two or three sessions, and every pair of row locks, on Shoal and on "
        "PostgreSQL.",
        0.5,
        isolation.named,
        least=4.0,
        enough=40,
    ),
    Trial(
        "meetings",
        "Conflicting sessions wait, continue and end as in PostgreSQL",
        "Generated scripts of two to four sessions with conflicts (rows, unique keys, ON CONFLICT, MERGE, foreign "
        "keys, deferred keys, partitions, schema changes, privileges, table and advisory locks, safe snapshots) run "
        "step by step in the same order on Shoal and on PostgreSQL. The result of each step, its waits, the session "
        "that ends each wait, and the final tables are compared.",
        1.0,
        isolation.meetings,
        least=10.0,
        enough=200,
    ),
    Trial(
        "cluster",
        "A cluster under faults has one leader, loses nothing, and has equal replicas",
        "A commit of unknown outcome is never reported as failed. Three nodes under load are killed and frozen at "
        "every step of a commit and of a takeover, ZooKeeper and stores stop, and replies are lost. Then all replicas "
        "are compared with each other and with the log.",
        4.0,
        others.cluster,
        least=75.0,
        enough=1000,
    ),
    Trial(
        "simulation",
        "The cluster's protocol holds in simulation",
        "Commit, takeover and followers run in virtual time, with clock, ZooKeeper and stores in memory. A seed "
        "determines the faults and repeats them.",
        1.0,
        simulation.trial,
        exact=True,
        least=5.0,
        enough=500,
    ),
    Trial(
        "differential",
        "Answers are PostgreSQL's on both paths",
        "Generated schemas, rows and statements run on the row path, the columnar path and PostgreSQL. Two more tests "
        "need no second database: TLP compares a query with the union of its parts, NoREC with an unoptimised form.",
        1.5,
        others.differential,
        least=6.0,
        enough=400,
    ),
    Trial(
        "columns",
        "Columns equal rows in every snapshot",
        "One client changes tables while the analytic worker and the server are killed and restarted. At snapshots in "
        "between, every table is read on the columnar path, and by key on the row path.",
        0.5,
        columns.columns,
        exact=True,
        least=25.0,
        enough=15,
    ),
    Trial(
        "families",
        "Partitioned and inherited tables are right beside writers",
        "Two connections change partitioned tables (range, list, hash, two levels) and inherited tables: ATTACH and "
        "DETACH beside open transactions, foreign keys that cascade, rows that move. Answers and waits are compared "
        "with PostgreSQL's, then every index with its rows.",
        0.5,
        others.families,
        least=15.0,
        enough=150,
    ),
    Trial(
        "sqlsmith",
        "Every statement is answered or refused with an error",
        "Statements that sqlsmith generates from the catalog and a few tables, on both paths, cause no crash, no hang "
        "and no internal error. Most of these statements have no meaning, and are refused.",
        1.0,
        smith.sqlsmith,
        exact=True,
        least=8.0,
        enough=100,
    ),
    Trial(
        "load",
        "Point reads stay fast beside hundreds of connections and large loads",
        "500 connections are idle, and 200 read rows by key, 1,000 times a second in total. Beside them run a slow "
        "reader of 2 GB, COPY of 1 GB, IN lists of 100,000 items, a long analytic query, and all of these together. "
        "The p99 must stay below five times that without load; a load that is slower is run once more. The process "
        "must not grow by 1 GB. PostgreSQL, in turns, is the control.",
        1.0,
        crowd.load,
        least=62.0,
        enough=5,
    ),
    Trial(
        "holding",
        "No statement blocks the server",
        "Every function, operator, aggregate and cast is called with long, deep and wide values on both paths, and "
        "texts of 1 to 60 MB are sent for every type, while another connection runs short statements. These must wait "
        "less than 0.25 s of the server's processor time. The call must end within a second of statement_timeout, "
        "pg_cancel_backend or pg_terminate_backend, without XX000, and use less than 1 GB. SIGTERM must end the server "
        "when the ten seconds for running statements are over.",
        1.0,
        holding.holding,
        exact=True,
        least=75.0,
        enough=60,
    ),
    Trial(
        "wire",
        "Malformed messages do no harm",
        "Valid messages are changed, cut, repeated and mixed with garbage, in every state of the protocol.",
        1.0,
        security.frames,
        exact=True,
        enough=5000,
    ),
    Trial(
        "rights",
        "Privileges are PostgreSQL's",
        "Every statement on every kind of object runs as owner, as member with and without INHERIT, as grantee, as a "
        "role without privileges, as superuser, as a former superuser, and as member of the predefined roles. The "
        "SQLSTATE of each combination (cell) is compared with PostgreSQL's.",
        0.3,
        security.rights,
        exact=True,
        least=45.0,
        enough=3000,
    ),
    Trial(
        "escapes",
        "No statement reads a file of the host",
        "DuckDB's and PostgreSQL's ways to files, programs, extensions and the network are tried as an ordinary user "
        "and as superuser, on both paths. PostgreSQL's superuser is the planted fault.",
        0.3,
        security.escapes,
        least=4.0,
        enough=1000,
    ),
    Trial(
        "secrets",
        "Functions of other roles reveal nothing",
        "Functions whose bodies read a table are used in defaults, generated columns, constraints, domains, indexes, "
        "partitions and views. Four users run each statement that calls them, on both paths and on PostgreSQL.",
        0.3,
        security.secrets,
        exact=True,
        least=60.0,
        enough=400,
    ),
)
