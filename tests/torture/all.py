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
        "an acknowledged commit is never lost, another one is whole or absent: power cuts, a full disk",
        "a file system on a loop device; its image is copied while the process stands still (before each operation on "
        "files of the works below, and at random moments under load), mounted and recovered; the planted fault is a "
        "changelog that is never synced",
        2.0,
        durability.power_cuts,
        exact=True,
        least=12.0,
    ),
    Trial(
        "kills",
        "the same when the process is killed",
        "kill -9 at random moments of commits, flushes and the rolling of the changelog; the planted fault tells of "
        "commits before they are written",
        1.0,
        durability.kills,
        exact=True,
    ),
    Trial(
        "failures",
        "failing operations, and kills at every operation, lose nothing and end politely",
        "a library between the process and the C library meets each write, sync, rename, link, removal and creation, "
        "of LMDB and Arrow too: it fails (once, or with all that follow), finds the disk full, is torn, or is the "
        "last; of commits, flushes, bulk runs, rolling segments, a start after a crash, schema changes, tablespaces, "
        "branches, objects of a cluster's changelog, checkpoints, a new replica, backups",
        1.5,
        durability.failures,
        exact=True,
        least=12.0,
    ),
    Trial(
        "flips",
        "damage is noticed",
        "one bit of one byte after the other is flipped in changelogs, bulk files, checkpoints (Parquet, catalog, "
        "manifest), backups, objects and packs of a cluster's changelog; `shoal doctor` has to name what a start "
        "refuses",
        1.0,
        durability.flipped,
        exact=True,
    ),
    Trial(
        "isolation",
        "isolation per level",
        "Elle's list-append test on one node: through keys, secondary indexes, the row path and the columnar path, in "
        "two tablespaces; PostgreSQL is the control; the planted faults are weaker levels than the ones asked for, and "
        "a ROLLBACK that commits",
        3.0,
        isolation.histories,
        least=10.0,
    ),
    Trial(
        "isolation-cluster",
        "isolation per level, in a cluster",
        "the same on three nodes, sessions on the leader and on followers; the planted fault is followers that answer "
        "with what they have",
        2.0,
        isolation.cluster_histories,
        least=14.0,
    ),
    Trial(
        "isolation-named",
        "named anomalies",
        "Hermitage's scenarios as scripts of two or three sessions, and every pair of row locks, beside PostgreSQL; "
        "the planted faults are weaker levels and a weaker lock",
        0.5,
        isolation.named,
        least=4.0,
    ),
    Trial(
        "meetings",
        "sessions that meet wait, continue and end as in PostgreSQL",
        "generated scripts of two to four sessions that get in each other's way (rows, unique keys, ON CONFLICT, "
        "MERGE, foreign keys, deferred keys, partitions, schema changes, rights, table and advisory locks, safe "
        "snapshots), step by step in one order on Shoal and on PostgreSQL: what each step gives, whether it waits, who "
        "lets it continue, what is in the tables in the end; the planted faults are weaker locks of rows and tables, a "
        "weaker level, a ROLLBACK that commits, a foreign key that is none, no wait for rows, none for a safe snapshot",
        1.0,
        isolation.meetings,
        least=10.0,
    ),
    Trial(
        "cluster",
        "one leader, nothing lost, unknown is never called failed, replicas are equal: a cluster under faults",
        "load on three nodes; they are killed and frozen at every step of a commit and of a takeover, ZooKeeper and "
        "stores go away, replies are lost; then every replica and the log are compared; the planted faults are commits "
        "without a fence, answers before the commit, entries that are not applied, and unknown outcomes called failed",
        4.0,
        others.cluster,
        least=75.0,
    ),
    Trial(
        "simulation",
        "the same in virtual time",
        "commit, takeover and followers with clock, ZooKeeper and stores in memory; faults by a seed that replays",
        1.0,
        simulation.trial,
        exact=True,
        least=5.0,
    ),
    Trial(
        "differential",
        "answers are right",
        "generated schemas, rows and statements on the row path, the columnar path and PostgreSQL; and by themselves, "
        "as parts of a whole (TLP) and without plans (NoREC)",
        1.5,
        others.differential,
        least=6.0,
    ),
    Trial(
        "columns",
        "columns equal rows at every moment",
        "one client changes tables while the analytic worker and the server are killed and restarted; at snapshots in "
        "between every table is read by the columnar path, and by keys on the row path; the planted fault is a file of "
        "columns that lacks changes which it says it has",
        0.5,
        columns.columns,
        exact=True,
        least=25.0,
    ),
    Trial(
        "families",
        "tables that stand for others answer right, and their indexes are whole, beside writers",
        "partitioned tables (range, list, hash, two levels) and inherited ones change by two connections: ATTACH and "
        "DETACH beside open transactions, keys that cascade and move rows; each answer, and who waits, beside "
        "PostgreSQL's, then every index beside its rows; the planted faults are servers that are told something else "
        "(cascades that stay, an ATTACH that does nothing, a unique index that is none and the like)",
        0.5,
        others.families,
        least=15.0,
    ),
    Trial(
        "sqlsmith",
        "every statement is answered or properly refused",
        "statements that sqlsmith makes of the catalog and of a few tables, on both paths: no crash, no hang, no "
        "internal error; most of them call for what means nothing, or what is not there, and are refused",
        1.0,
        smith.sqlsmith,
        exact=True,
        least=8.0,
    ),
    Trial(
        "load",
        "point reads are answered beside hundreds of connections and large loads",
        "500 idle connections and 200 that read rows by key, 1,000 times a second in all; beside them a slow reader of "
        "2 GB, COPY of 1 GB, IN lists of 100,000 items, a long analytic query, and all at once; a p99 of more than "
        "five times the quiet one is wrong, and so is a process that grows by 1 GB of its own; PostgreSQL in turns "
        "with it is the control; the planted fault stops the server",
        1.0,
        crowd.load,
        least=62.0,
    ),
    Trial(
        "holding",
        "no statement holds the server",
        "calls of every function, operator, aggregate and cast over long, deep and wide values, on both paths, "
        "and texts of 1 to 60 MB sent for every type, its own values and others, while "
        "another connection asks; a wait of more than 0.25 s of the server's processor time is wrong, and so are an "
        "end later than a second after statement_timeout, pg_cancel_backend or pg_terminate_backend, more than 1 GB, "
        "XX000, and a server that SIGTERM does not end when its ten seconds for statements are over; the planted "
        "faults are a function that takes 1, 4 and 16 s in one step",
        1.0,
        holding.holding,
        exact=True,
        least=75.0,
    ),
    Trial(
        "wire",
        "the wire takes anything",
        "good messages spoiled, cut, doubled and mixed with garbage, in every state of the protocol; the planted "
        "faults are a defect, a hang and a crash at one kind of message",
        1.0,
        security.frames,
        exact=True,
    ),
    Trial(
        "rights",
        "no role may do what PostgreSQL would refuse",
        "every kind of object and every statement that touches one, as owner, member with and without INHERIT, "
        "grantee, stranger, superuser, one that is none any more, members of predefined roles; the SQLSTATE of each "
        "cell beside PostgreSQL's; the planted faults are checks that pass, NOINHERIT without effect and the like",
        0.3,
        security.rights,
        exact=True,
        least=45.0,
    ),
    Trial(
        "escapes",
        "no file of the host can be read",
        "DuckDB's and PostgreSQL's ways to files, programs, extensions and the network, as an ordinary user and as "
        "superuser, on both paths; PostgreSQL's superuser is the planted fault",
        0.3,
        security.escapes,
        least=4.0,
    ),
    Trial(
        "secrets",
        "nobody reads by somebody else's function what he may not read",
        "functions whose bodies read a table, in defaults, generated columns, constraints, domains, indexes, "
        "partitions and views, run by each statement of four users on both paths, beside PostgreSQL; the planted "
        "faults are servers that do not ask for the rights of bodies, of calls, of refreshes",
        0.3,
        security.secrets,
        exact=True,
        least=60.0,
    ),
)
