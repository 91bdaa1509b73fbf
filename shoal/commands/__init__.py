"""The commands other than `serve` and `route`. Commands for a cluster use ZooKeeper, the store, and client connections
to nodes.

    init.py            creates an empty database in a new directory
    sql.py             runs statements on a server or a directory: sql_channels.py, sql_directory.py, sql_text.py,
                       sql_errors.py, sql_prompt.py
    config.py          prints the settings in force
    completion.py      prints a script for the shell
    status.py          nodes, tablespaces, leaders, replicas, and problems
    ledger.py          the ledgers of the changelog: a list, their objects, their entries
    checkpoint.py      makes the leader write a checkpoint
    lead.py            makes another node the leader
    changes.py         prints a change stream as JSON lines, over a client connection
    check.py           compares the replicas with each other
    check_indexes.py   compares indexes with the rows of their tables
    doctor.py          finds problems in the directory of a stopped server
    health.py          tests whether a server or a router answers
    store.py           changes the store, or the members of a quorum store
    backup.py          backups of a running server, verify and restore
    restore_as.py      restores one database beside others
    pipeline.py        jobs on Spark: pipeline_jobs.py; their command lines: pipeline_parser.py
    compact.py         the job that compacts a store of backups: shoal/archive/compaction.py
    progress_bars.py   progress bars for long work
    cluster_access.py  shared functions: access to a cluster without changing it, SQL to a node, tables of text

A command prints to standard output. Its exit status is 0, or 1 when something is wrong with the cluster. Errors of the
command line, and of the connection to the cluster, are one line on standard error, with status 1.
"""

from __future__ import annotations

import argparse
import sys

from engine.sql.dialects.names import DIALECTS, SHOAL
from shoal.commands.pipeline_parser import add_pipeline
from shoal.config import ConfigError

STATUS_EXAMPLES = """examples:
  shoal status --cluster zk://127.0.0.1:2181/shoal
  shoal status --cluster zk://127.0.0.1:2181/shoal --json
The exit status is 1 when something is wrong; the last lines then say what.
"""

LEDGER_EXAMPLES = """examples:
  shoal ledger list --cluster zk://127.0.0.1:2181/shoal
  shoal ledger show --cluster zk://127.0.0.1:2181/shoal 3
  shoal ledger read --cluster zk://127.0.0.1:2181/shoal --from 1000 --to 1010
  shoal ledger read --cluster zk://127.0.0.1:2181/shoal --json > entries.jsonl
`read` verifies the checksum of every entry and the chain of their hashes.
"""

CHECKPOINT_EXAMPLES = """examples:
  shoal checkpoint --cluster zk://127.0.0.1:2181/shoal
  shoal checkpoint --dsn "host=127.0.0.1 port=5432"        the same: SELECT shoal_checkpoint()
  shoal checkpoint --cluster zk://127.0.0.1:2181/shoal --json
"""

CHECK_EXAMPLES = """examples:
  shoal check --cluster zk://127.0.0.1:2181/shoal
  shoal check --cluster zk://127.0.0.1:2181/shoal --timeout 600 --json
  shoal check --dsn "host=127.0.0.1 port=5432"             one server, or a cluster's leader
With --cluster, every replica hashes all of its data at the same LSN while it keeps serving, and compares the columns
that its analytic worker has with its rows. With --dsn, every index of every database, and the columns of that server,
are compared with the rows of their tables at one LSN. REINDEX repairs an index that differs; columns are built again by
ALTER TABLE ... SET (columnar = off), then RESET (columnar). The exit status is 1 when hashes, indexes or columns
differ, or when a replica does not answer in time.
"""

STORE_EXAMPLES = """examples:
  shoal store move --cluster zk://127.0.0.1:2181/shoal s3://logs/shoal
  shoal store replace --cluster zk://127.0.0.1:2181/shoal log://10.0.0.8:7301 log://10.0.0.12:7301
  shoal store drain --cluster zk://127.0.0.1:2181/shoal log://10.0.0.8:7301
Writes continue meanwhile. New commits go to the other members, and everything that the old member held is copied from
members that also have it. When the command ends, the old member can be switched off. If the command is interrupted, the
cluster finishes the work; shoal_tablespaces shows the stores, with a "-" before members that are leaving.
"""

BACKUP_EXAMPLES = """examples:
  shoal backup /var/backups/shoal --dsn "host=127.0.0.1 port=5432"
  shoal backup s3://backups/shoal --cluster zk://127.0.0.1:2181/shoal
The server writes the backup, so a directory is one on its machine, and credentials come from its environment. Run the
command again with the same destination to write only what has changed since. After an interrupted backup, the next run
reuses the files that were already written.
"""

VERIFY_EXAMPLES = """examples:
  shoal verify /var/backups/shoal
  shoal verify s3://backups/shoal --json
Reads every backup completely. The exit status is 1 when something is missing or damaged; the last lines then say what.
"""

RESTORE_EXAMPLES = """examples:
  shoal restore /var/backups/shoal --data /var/lib/restored
  shoal restore /var/backups/shoal --data before-the-mistake --to-time "2026-11-20 18:04:11"
  shoal restore s3://backups/shoal --data at-1000 --to-lsn 1000
then:
  shoal serve --data before-the-mistake --listen 127.0.0.1:5433
one database:
  shoal restore /var/backups/shoal --as shop_before --database shop --to-time "2026-11-20 18:04:11"
  shoal restore /var/backups/shoal --as shop_before --database shop --data /var/lib/shoal
A restore never overwrites anything: DIR must be new or empty, and with --as the database NAME must not exist.
--as takes one database out of the backup and adds it as a new database to a running server (--dsn) or to the directory
of a stopped one (--data). After an interrupted restore, the same command continues where it stopped.
"""

DOCTOR_EXAMPLES = """examples:
  shoal doctor /var/lib/shoal
  shoal doctor /var/lib/shoal --json
Reads the tables and the changelog of a stopped server and changes nothing. The exit status is 1 when something is
wrong; the last lines then say what to do.
"""

HEALTH_EXAMPLES = """examples:
  shoal health                                          a server, or a router, on 127.0.0.1:5432 or at SHOAL_LISTEN
  shoal health 127.0.0.1:6543
  shoal health http://127.0.0.1:8080/readyz             the administration port: whether clients are served
The exit status is 0 when it answers. The command does not log in.
"""

LEAD_EXAMPLES = """examples:
  shoal lead --cluster zk://127.0.0.1:2181/shoal n2
The leader commits its pending work and steps down. Open transactions fail with 40001 and can be retried.
"""

CHANGES_EXAMPLES = """examples:
  shoal changes s                                    the changes after its position, one JSON object per line
  shoal changes s --follow --advance | consumer      until ^C; releases each change once it is printed
  shoal changes s --after 1042 --limit 100 --dsn "host=db1,db2 user=app"
Transactions are printed whole, so there may be more lines than --limit. Each line is in Debezium's envelope: before,
after, key, source (lsn, txId, ordinal, ts_ms of the commit, schema, table, schemaVersion), op (c, u, d, t), ts_ms.
To continue later, pass the LSN of the last line to --after; ^C prints it.
"""

INIT_EXAMPLES = """examples:
  shoal init --data /var/lib/shoal
  shoal init --data /var/lib/shoal --password-file secret       the password of the role postgres
then:
  shoal serve --data /var/lib/shoal
"""

SQL_EXAMPLES = """examples:
  shoal sql                                                    a prompt, connected to 127.0.0.1:5432
  shoal sql "SELECT count(*) FROM accounts"
  shoal sql --dsn postgresql://app@db1:5432/shop -f changes.sql
  shoal sql --data ./shoal-data "SELECT 6 * 7"                 the directory of a stopped server
  shoal sql --json "SELECT * FROM accounts" | jq .owner        one JSON object per row
  shoal sql --csv "SELECT * FROM accounts" > accounts.csv
  shoal sql --dialect mysql -f report.sql                      statements in MySQL's SQL
Each statement is its own transaction unless BEGIN starts one. The first error ends the command with exit status 1.
"""

COMPLETION_EXAMPLES = """examples:
  shoal completion bash > ~/.local/share/bash-completion/completions/shoal
  shoal completion zsh > ~/.zfunc/_shoal
  shoal completion fish > ~/.config/fish/completions/shoal.fish
"""

PIPELINE_EXAMPLES = """examples:
  shoal pipeline import sales.csv sales
Each job starts its own Spark session on this machine, or on the cluster that --master names. The extra `spark` of the
package installs Spark, which needs Java 17 or later.
"""

DSN = "host=127.0.0.1 port=5432 user=postgres dbname=postgres"
SHELLS = ("bash", "zsh", "fish", "tcsh")
URL = "zk://HOST:PORT,.../NAME"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the parsers of all commands."""
    init = _parser(commands, "init", "make an empty database in a new directory", INIT_EXAMPLES)
    init.add_argument("--data", metavar="DIR", default="./shoal-data", help="new data directory (default: %(default)s)")
    init.add_argument(
        "--password-file", metavar="FILE", help="file whose first line is the password of the role postgres"
    )
    init.add_argument("--json", action="store_true", help="one JSON object")
    _sql(_parser(commands, "sql", "run statements, or open a prompt", SQL_EXAMPLES))
    completion = _parser(commands, "completion", "print a completion script for a shell", COMPLETION_EXAMPLES)
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh, fish or tcsh")
    status = _parser(commands, "status", "show the nodes and replicas of a cluster", STATUS_EXAMPLES)
    _cluster(status)
    status.add_argument("--json", action="store_true", help="one JSON object")
    _ledger(_parser(commands, "ledger", "list, show and read the ledgers of a changelog", LEDGER_EXAMPLES))
    _checkpoint(_parser(commands, "checkpoint", "make the leader write a checkpoint now", CHECKPOINT_EXAMPLES))
    _check(
        _parser(
            commands,
            "check",
            "compare replicas with each other, or indexes and analytic copies with rows",
            CHECK_EXAMPLES,
        )
    )
    lead = _parser(commands, "lead", "make another node the leader", LEAD_EXAMPLES)
    _cluster(lead)
    lead.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=60.0, help="how long to wait for the node (default: 60)"
    )
    lead.add_argument(
        "--tablespace", metavar="NAME", default="pg_default", help="tablespace to lead (default: pg_default)"
    )
    lead.add_argument("--json", action="store_true", help="one JSON object")
    lead.add_argument("node", metavar="NODE", help="the node that should lead")
    _changes(_parser(commands, "changes", "print the changes in a change stream, or follow it", CHANGES_EXAMPLES))
    doctor = _parser(commands, "doctor", "look for damage in the directory of a stopped server", DOCTOR_EXAMPLES)
    doctor.add_argument("directory", metavar="DIR", help="the data directory of the server")
    doctor.add_argument("--json", action="store_true", help="one JSON object")
    health = _parser(commands, "health", "check whether a server or a router answers", HEALTH_EXAMPLES)
    health.add_argument(
        "address", metavar="HOST:PORT|URL", nargs="?", help="address (default: SHOAL_LISTEN, or 127.0.0.1:5432)"
    )
    health.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=5.0, help="how long to wait for an answer (default: 5)"
    )
    health.add_argument("--json", action="store_true", help="one JSON object")
    _archive(commands)
    add_pipeline(
        _parser(commands, "pipeline", "import, export, copy and query data with Spark", PIPELINE_EXAMPLES), _parser
    )
    _store(_parser(commands, "store", "change the store, or the members of a quorum store", STORE_EXAMPLES))


def _sql(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--dsn", metavar="DSN", default=DSN,
        help='connection string: "host=... user=..." or postgresql://... (default: %(default)s)',
    )  # fmt: skip
    where.add_argument("--data", metavar="DIR", help="the data directory of a stopped server, instead of a connection")
    command.add_argument("--user", default="postgres", help="with --data: the role (default: postgres)")
    command.add_argument("--database", default="postgres", help="with --data: the database (default: postgres)")
    command.add_argument(
        "--dialect", choices=DIALECTS, default=SHOAL, help="the SQL of the statements (default: %(default)s)"
    )
    what = command.add_mutually_exclusive_group()
    what.add_argument("-f", "--file", metavar="FILE", help="run the statements of a file")
    what.add_argument(
        "statement", metavar="STATEMENT", nargs="?", help="default: read standard input; on a terminal, a prompt"
    )
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object per row, each on a line")
    form.add_argument("--csv", action="store_true", help="comma-separated values with a header")


def _checkpoint(checkpoint: argparse.ArgumentParser) -> None:
    where = checkpoint.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", metavar=URL, help="address of the cluster's ZooKeeper")
    where.add_argument(
        "--dsn", metavar="DSN", help='connection string of the leader: "host=... port=..." or postgresql://HOST:PORT'
    )
    checkpoint.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    checkpoint.add_argument("--json", action="store_true", help="one JSON object")


def _check(check: argparse.ArgumentParser) -> None:
    where = check.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", metavar=URL, help="address of the cluster's ZooKeeper; compares the replicas")
    where.add_argument(
        "--dsn",
        metavar="DSN",
        help='connection string of a server: "host=... port=..."; compares indexes and copies with rows',
    )
    check.add_argument("--tablespace", metavar="NAME", help="check one tablespace (default: all)")
    check.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=300.0, help="how long to wait for replicas (default: 300)"
    )
    check.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    check.add_argument("--json", action="store_true", help="one JSON object")


def _changes(changes: argparse.ArgumentParser) -> None:
    changes.add_argument("stream", metavar="STREAM", help="name of the stream")
    changes.add_argument(
        "--after", metavar="LSN", type=int, help="start after this LSN (default: the position of the stream)"
    )
    changes.add_argument("--limit", metavar="N", type=int, help="stop after this many changes (default: print all)")
    changes.add_argument("--follow", action="store_true", help="keep waiting for more changes until ^C")
    changes.add_argument(
        "--advance", action="store_true", help="move the position of the stream past the printed changes"
    )
    changes.add_argument(
        "--json", action="store_true", help="print JSON lines; this is the default and the only format"
    )
    changes.add_argument(
        "--dsn", metavar="DSN", default=DSN,
        help='connection string of the server: "host=... user=..." or postgresql://... (default: %(default)s)',
    )  # fmt: skip


def _cluster(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cluster", metavar=URL, required=True, help="address of the cluster's ZooKeeper")


def _parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, examples: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _ledger(ledger: argparse.ArgumentParser) -> None:
    actions = ledger.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in (
        ("list", "list the ledgers with their LSNs, sizes and stores"),
        ("show", "list the objects of one ledger"),
        ("read", "decode and verify entries"),
    ):
        action = _parser(actions, name, text, LEDGER_EXAMPLES)
        _cluster(action)
        action.add_argument(
            "--tablespace", metavar="NAME", default="pg_default", help="tablespace of the ledgers (default: pg_default)"
        )
        action.add_argument("--json", action="store_true", help="one JSON object per line")
        if name == "show":
            action.add_argument("ledger", metavar="LEDGER", type=int, help="number of the ledger")
        if name == "read":
            action.add_argument("--from", dest="first", metavar="LSN", type=int, help="first LSN (default: the oldest)")
            action.add_argument("--to", dest="last", metavar="LSN", type=int, help="last LSN (default: the newest)")


def _archive(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the parsers of the commands for backups."""
    backup = _parser(commands, "backup", "back up a running server or cluster", BACKUP_EXAMPLES)
    backup.add_argument(
        "destination", metavar="DIR|URL", help="a directory on the machine of the server, s3://..., log://..."
    )
    where = backup.add_mutually_exclusive_group()
    where.add_argument("--cluster", metavar=URL, help="address of the cluster's ZooKeeper")
    where.add_argument(
        "--dsn",
        metavar="DSN",
        default="host=127.0.0.1 port=5432",
        help="connection string of the server (default: %(default)s)",
    )
    backup.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    verify = _parser(commands, "verify", "check that backups are complete", VERIFY_EXAMPLES)
    restore = _parser(
        commands, "restore", "restore a backup into a data directory, or one database of it", RESTORE_EXAMPLES
    )
    for command in (verify, restore):
        command.add_argument("source", metavar="SOURCE", help="a directory, or the URL of a store")
    restore.add_argument(
        "--data", metavar="DIR", help="the new data directory; with --as, the directory of a stopped server"
    )
    restore.add_argument("--as", metavar="NAME", dest="as_name", help="restore one database, under this new name")
    restore.add_argument(
        "--database", metavar="NAME", default="postgres", help="with --as: the database to restore (default: postgres)"
    )
    restore.add_argument("--dsn", metavar="DSN", help="with --as: the server (default: host=127.0.0.1 port=5432)")
    restore.add_argument("--user", default="postgres", help="with --as: a superuser (default: postgres)")
    restore.set_defaults(misused=restore.error)
    when = restore.add_mutually_exclusive_group()
    when.add_argument("--to-lsn", metavar="N", type=int, help="state at this LSN of pg_default (default: the newest)")
    when.add_argument("--to-time", metavar="TIME", help="state at this time, in ISO format")
    for command in (backup, verify, restore):
        command.add_argument("--json", action="store_true", help="one JSON object")


def _store(store: argparse.ArgumentParser) -> None:
    actions = store.add_subparsers(dest="action", metavar="ACTION", required=True)
    move = _parser(actions, "move", "move to another store, of any kind", STORE_EXAMPLES)
    _cluster(move)
    move.add_argument(
        "--tablespace", metavar="NAME", help="move one tablespace (default: all in the store of pg_default)"
    )
    move.add_argument("--no-wait", action="store_true", help="do not wait until the new store has been written to")
    move.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=60.0, help="how long to wait for the leaders (default: 60)"
    )
    move.add_argument("--json", action="store_true", help="one JSON object")
    move.add_argument("new", metavar="NEW", help="URL of the new store")
    for name, text in (("replace", "replace a member by another"), ("drain", "remove a member")):
        action = _parser(actions, name, text, STORE_EXAMPLES)
        _cluster(action)
        action.add_argument(
            "--tablespace", metavar="NAME", help="one tablespace (default: all whose store has the member)"
        )
        action.add_argument("--no-wait", action="store_true", help="do not wait until the member is no longer needed")
        action.add_argument("--json", action="store_true", help="one JSON object")
        action.add_argument("old", metavar="OLD", help="URL of the member to remove")
        if name == "replace":
            action.add_argument("new", metavar="NEW", help="URL of the member to add")


def run_command(options: argparse.Namespace) -> int:
    """Runs the command that was parsed, and returns its exit status. Raises ConfigError, SqlError."""
    if options.command == "changes":
        from shoal.commands import changes

        return changes.run(options)
    if options.command == "init":
        from shoal.commands import init

        return init.run(options)
    if options.command == "sql":
        from shoal.commands import sql

        return sql.run(options)
    if options.command == "pipeline":
        from shoal.commands import pipeline

        return pipeline.run(options)
    if options.command == "doctor":
        from shoal.commands import doctor

        return doctor.run(options)
    if options.command == "health":
        from shoal.commands import health

        return health.run(options)
    if options.command == "restore" and options.as_name is not None:
        from shoal.commands import restore_as

        return restore_as.run(options)
    from shoal.commands import backup, check, checkpoint, lead, ledger, status, store
    from shoal.commands.cluster_access import run_command

    work = {
        "status": status.run,
        "ledger": ledger.run,
        "checkpoint": checkpoint.run,
        "check": check.run,
        "lead": lead.run,
        "store": store.run,
        "backup": backup.run_backup,
        "verify": backup.run_verify,
        "restore": backup.run_restore,
    }
    try:
        return run_command(work[options.command](options))
    except BrokenPipeError:  # `... | head`
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        raise ConfigError("interrupted") from None
