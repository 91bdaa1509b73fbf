"""The commands that do not serve. Those for a cluster talk to ZooKeeper, to the store, and to nodes as any client.

    init.py          an empty database in a new directory
    sql.py           statements for a server or a directory: sql_channels.py, sql_text.py, sql_prompt.py
    config.py        the settings in force
    completion.py    a script for the shell
    status.py        nodes, tablespaces, leaders, replicas, and what is wrong
    ledger.py        the changelog's ledgers: which there are, their objects, their entries
    checkpoint.py    a checkpoint now
    lead.py          another node leads
    changes.py       a change stream as JSON lines: a client of any server
    check.py         whether all replicas hold the same
    check_indexes.py whether indexes hold what the rows give
    doctor.py        what is wrong with the directory of a stopped server
    store.py         another store; another member for a quorum store, or one less
    backup.py        backups of a running server, and what is made of them: verify, restore
    restore_as.py    restore of one database beside others
    pipeline.py      jobs on Spark; their command lines: pipeline_parser.py
    compact.py       one of these, on a store of backups: shoal/archive/compacting.py
    showing.py       bars for what takes long
    looking.py       what they share: opening a cluster without changing it, tables of text, talking SQL

A command prints to standard output and gives the exit status: 0, or 1 when something is wrong with the cluster. What is
wrong with the command line or the way to the cluster is one line on standard error, and 1.
"""

from __future__ import annotations

import argparse
import sys

from shoal.commands.pipeline_parser import add_pipeline
from shoal.config import ConfigError

STATUS_EXAMPLES = """examples:
  shoal status --cluster zk://127.0.0.1:2181/shoal
  shoal status --cluster zk://127.0.0.1:2181/shoal --json
The exit status is 1 when something is wrong: then the last lines say what.
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
With --cluster every replica hashes everything that it holds at one and the same LSN, beside its other work. With --dsn
every index of every database is compared with its table's rows at one LSN: REINDEX mends one that differs. So is the
copy of each table that the analytic worker has by then: the worker makes it anew when the server starts again. The exit
status is 1 when hashes, indexes or copies differ, or when a replica does not answer in time.
"""

STORE_EXAMPLES = """examples:
  shoal store move --cluster zk://127.0.0.1:2181/shoal s3://logs/shoal
  shoal store replace --cluster zk://127.0.0.1:2181/shoal log://10.0.0.8:7301 log://10.0.0.12:7301
  shoal store drain --cluster zk://127.0.0.1:2181/shoal log://10.0.0.8:7301
Nothing stops meanwhile: what is committed from then on goes to the other members, and what the old one holds, or held,
is copied from those that have it too. When the command ends the old member may be switched off. If it is interrupted
the cluster goes on with the work; shoal_tablespaces shows the stores, with a "-" before members that leave.
"""

BACKUP_EXAMPLES = """examples:
  shoal backup /var/backups/shoal --dsn "host=127.0.0.1 port=5432"
  shoal backup s3://backups/shoal --cluster zk://127.0.0.1:2181/shoal
The server writes it: a directory is one of its machine, and credentials come from its environment. Run it again with
the same place to write what has changed since; a backup that was broken off is gone on from.
"""

VERIFY_EXAMPLES = """examples:
  shoal verify /var/backups/shoal
  shoal verify s3://backups/shoal --json
Reads every backup whole. The exit status is 1 when something is missing or damaged; then the last lines say what.
"""

RESTORE_EXAMPLES = """examples:
  shoal restore /var/backups/shoal --data /var/lib/restored
  shoal restore /var/backups/shoal --data before-the-mistake --to-time "2026-11-20 18:04:11"
  shoal restore s3://backups/shoal --data at-1000 --to-lsn 1000
Then: shoal serve --data before-the-mistake --listen 127.0.0.1:5433
  shoal restore /var/backups/shoal --as shop_before --database shop --to-time "2026-11-20 18:04:11"
  shoal restore /var/backups/shoal --as shop_before --database shop --data /var/lib/shoal
A restore never overwrites: DIR must not exist, or be empty, and with --as there must be no database NAME. --as takes
one database out of the backup and makes it a new one beside those of a server (--dsn), or of a directory that nobody
serves (--data). A restore that was broken off is gone on from.
"""

DOCTOR_EXAMPLES = """examples:
  shoal doctor /var/lib/shoal
  shoal doctor /var/lib/shoal --json
Reads tables and changelog of a stopped server and changes nothing. The exit status is 1 when something is wrong; then
the last lines say what can be done.
"""

LEAD_EXAMPLES = """examples:
  shoal lead --cluster zk://127.0.0.1:2181/shoal n2
The leader commits what it has and steps down; transactions that are open then fail with 40001 and can be retried.
"""

CHANGES_EXAMPLES = """examples:
  shoal changes s                                    what the stream holds behind its position, one JSON object a line
  shoal changes s --follow --advance | consumer      for ever; what was printed is let go
  shoal changes s --after 1042 --limit 100 --dsn "host=db1,db2 user=app"
Whole transactions are printed, so there may be more lines than --limit. Each line is in Debezium's envelope: before,
after, key, source (lsn, txId, ordinal, ts_ms of the commit, schema, table, schemaVersion), op (c, u, d, t), ts_ms.
--after goes on behind the LSN of the last line; ^C says which one that is.
"""

INIT_EXAMPLES = """examples:
  shoal init --data /var/lib/shoal
  shoal init --data /var/lib/shoal --password-file secret       the password of the role postgres
Then: shoal serve --data /var/lib/shoal
"""

SQL_EXAMPLES = """examples:
  shoal sql                                                    a prompt, to the server on 127.0.0.1:5432
  shoal sql "SELECT count(*) FROM accounts"
  shoal sql --dsn postgresql://app@db1:5432/shop -f changes.sql
  shoal sql --data ./shoal-data "SELECT 6 * 7"                 a directory that nobody serves
  shoal sql --json "SELECT * FROM accounts" | jq .owner        one JSON object a row
  shoal sql --csv "SELECT * FROM accounts" > accounts.csv
Statements are committed one by one unless they say BEGIN; the first that fails ends the command with 1.
"""

COMPLETION_EXAMPLES = """examples:
  shoal completion bash > ~/.local/share/bash-completion/completions/shoal
  shoal completion zsh > ~/.zfunc/_shoal
  shoal completion fish > ~/.config/fish/completions/shoal.fish
"""

PIPELINE_EXAMPLES = """examples:
  shoal pipeline import sales.csv sales
Each runs on this machine, with Spark's session of its own; --master says where else. `shoal[spark]` brings Spark, which
needs Java 17 or newer.
"""

DSN = "host=127.0.0.1 port=5432 user=postgres dbname=postgres"
SHELLS = ("bash", "zsh", "fish", "tcsh")
URL = "zk://HOST:PORT,.../NAME"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Their command lines."""
    init = _parser(commands, "init", "make an empty database in a new directory", INIT_EXAMPLES)
    init.add_argument("--data", metavar="DIR", default="./shoal-data", help="default: %(default)s")
    init.add_argument("--password-file", metavar="FILE", help="whose first line is the password of the role postgres")
    init.add_argument("--json", action="store_true", help="one JSON object")
    _sql(_parser(commands, "sql", "run statements, or ask for them at a prompt", SQL_EXAMPLES))
    completion = _parser(commands, "completion", "print a script that completes this command line", COMPLETION_EXAMPLES)
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh, fish or tcsh")
    status = _parser(commands, "status", "show the nodes and replicas of a cluster", STATUS_EXAMPLES)
    _cluster(status)
    status.add_argument("--json", action="store_true", help="one JSON object")
    _ledger(_parser(commands, "ledger", "list, show and read the ledgers of a changelog", LEDGER_EXAMPLES))
    checkpoint = _parser(commands, "checkpoint", "have the leader write a checkpoint now", CHECKPOINT_EXAMPLES)
    where = checkpoint.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", metavar=URL, help="where the cluster's ZooKeeper is")
    where.add_argument("--dsn", metavar="DSN", help='of the leader: "host=... port=..." or postgresql://HOST:PORT')
    checkpoint.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    checkpoint.add_argument("--json", action="store_true", help="one JSON object")
    check = _parser(
        commands, "check", "compare what the replicas hold, or indexes and analytic copies with rows", CHECK_EXAMPLES
    )
    where = check.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", metavar=URL, help="where the cluster's ZooKeeper is: compares its replicas")
    where.add_argument(
        "--dsn", metavar="DSN", help='of a server: "host=... port=..."; compares indexes and copies with rows'
    )
    check.add_argument("--tablespace", metavar="NAME", help="default: all of them")
    check.add_argument("--timeout", metavar="SECONDS", type=float, default=300.0, help="default: 300")
    check.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    check.add_argument("--json", action="store_true", help="one JSON object")
    lead = _parser(commands, "lead", "have another node lead", LEAD_EXAMPLES)
    _cluster(lead)
    lead.add_argument("--timeout", metavar="SECONDS", type=float, default=60.0, help="default: 60")
    lead.add_argument("--tablespace", metavar="NAME", default="pg_default", help="default: pg_default")
    lead.add_argument("--json", action="store_true", help="one JSON object")
    lead.add_argument("node", metavar="NODE", help="the node that is to lead")
    changes = _parser(commands, "changes", "print what a change stream holds, or follow it", CHANGES_EXAMPLES)
    changes.add_argument("stream", metavar="STREAM", help="its name")
    changes.add_argument("--after", metavar="LSN", type=int, help="begin behind this LSN (default: its position)")
    changes.add_argument("--limit", metavar="N", type=int, help="end after so many changes (default: all)")
    changes.add_argument("--follow", action="store_true", help="wait for more, for ever")
    changes.add_argument("--advance", action="store_true", help="move the position on behind what was printed")
    changes.add_argument("--json", action="store_true", help="JSON lines: the only form, and the default")
    changes.add_argument(
        "--dsn", metavar="DSN", default=DSN,
        help='of the server: "host=... user=..." or postgresql://... (default: %(default)s)',
    )  # fmt: skip
    doctor = _parser(commands, "doctor", "look for damage in the directory of a stopped server", DOCTOR_EXAMPLES)
    doctor.add_argument("directory", metavar="DIR", help="its data directory")
    doctor.add_argument("--json", action="store_true", help="one JSON object")
    _archive(commands)
    add_pipeline(_parser(commands, "pipeline", "move data in and out by Spark", PIPELINE_EXAMPLES), _parser)
    _store(_parser(commands, "store", "change the store, or the members of a quorum store", STORE_EXAMPLES))


def _sql(command: argparse.ArgumentParser) -> None:
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--dsn", metavar="DSN", default=DSN,
        help='of a server: "host=... user=..." or postgresql://... (default: %(default)s)',
    )  # fmt: skip
    where.add_argument("--data", metavar="DIR", help="a directory that nobody serves, in place of a server")
    command.add_argument("--user", default="postgres", help="with --data (default: postgres)")
    command.add_argument("--database", default="postgres", help="with --data (default: postgres)")
    what = command.add_mutually_exclusive_group()
    what.add_argument("-f", "--file", metavar="FILE", help="run the statements of a file")
    what.add_argument("statement", metavar="STATEMENT", nargs="?", help="default: standard input, at a prompt")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a row, a line each")
    form.add_argument("--csv", action="store_true", help="comma-separated, with a header")


def _cluster(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cluster", metavar=URL, required=True, help="where the cluster's ZooKeeper is")


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
        ("list", "the ledgers, with their LSNs, sizes and stores"),
        ("show", "the objects of one ledger"),
        ("read", "entries, decoded and verified"),
    ):
        action = _parser(actions, name, text, LEDGER_EXAMPLES)
        _cluster(action)
        action.add_argument("--tablespace", metavar="NAME", default="pg_default", help="default: pg_default")
        action.add_argument("--json", action="store_true", help="one JSON object a line")
        if name == "show":
            action.add_argument("ledger", metavar="LEDGER", type=int, help="its number")
        if name == "read":
            action.add_argument("--from", dest="first", metavar="LSN", type=int, help="default: the oldest there is")
            action.add_argument("--to", dest="last", metavar="LSN", type=int, help="default: the newest")


def _archive(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Backups, and what is made of them."""
    backup = _parser(commands, "backup", "back a running server or cluster up", BACKUP_EXAMPLES)
    backup.add_argument("destination", metavar="DIR|URL", help="a directory of the server, s3://..., log://...")
    where = backup.add_mutually_exclusive_group()
    where.add_argument("--cluster", metavar=URL, help="where the cluster's ZooKeeper is")
    where.add_argument(
        "--dsn", metavar="DSN", default="host=127.0.0.1 port=5432", help="of the server (default: %(default)s)"
    )
    backup.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    verify = _parser(commands, "verify", "check that backups are whole", VERIFY_EXAMPLES)
    restore = _parser(commands, "restore", "make a data directory, or a database, of a backup", RESTORE_EXAMPLES)
    for command in (verify, restore):
        command.add_argument("source", metavar="SOURCE", help="a directory, or the URL of a store")
    restore.add_argument("--data", metavar="DIR", help="the new data directory; with --as, one that nobody serves")
    restore.add_argument("--as", metavar="NAME", dest="as_name", help="one database, as a new one of this name")
    restore.add_argument("--database", metavar="NAME", default="postgres", help="with --as: which (default: postgres)")
    restore.add_argument("--dsn", metavar="DSN", help="with --as: the server (default: host=127.0.0.1 port=5432)")
    restore.add_argument("--user", default="postgres", help="with --as: a superuser (default: postgres)")
    restore.set_defaults(misused=restore.error)
    when = restore.add_mutually_exclusive_group()
    when.add_argument("--to-lsn", metavar="N", type=int, help="as of this LSN of pg_default (default: the newest)")
    when.add_argument("--to-time", metavar="TIME", help="everything that was committed up to this time, in ISO form")
    for command in (backup, verify, restore):
        command.add_argument("--json", action="store_true", help="one JSON object")


def _store(store: argparse.ArgumentParser) -> None:
    actions = store.add_subparsers(dest="action", metavar="ACTION", required=True)
    move = _parser(actions, "move", "another store, of any kind", STORE_EXAMPLES)
    _cluster(move)
    move.add_argument("--tablespace", metavar="NAME", help="default: pg_default and all that lie where it lies")
    move.add_argument("--no-wait", action="store_true", help="do not wait until something is written there")
    move.add_argument("--timeout", metavar="SECONDS", type=float, default=60.0, help="default: 60")
    move.add_argument("--json", action="store_true", help="one JSON object")
    move.add_argument("new", metavar="NEW", help="URL of the store")
    for name, text in (("replace", "another member in place of one"), ("drain", "one member less")):
        action = _parser(actions, name, text, STORE_EXAMPLES)
        _cluster(action)
        action.add_argument("--tablespace", metavar="NAME", help="default: all whose store has the member")
        action.add_argument("--no-wait", action="store_true", help="do not wait until the member is no longer needed")
        action.add_argument("--json", action="store_true", help="one JSON object")
        action.add_argument("old", metavar="OLD", help="URL of the member that leaves")
        if name == "replace":
            action.add_argument("new", metavar="NEW", help="URL of the member that takes its place")


def run_command(options: argparse.Namespace) -> int:
    """Runs one of them; its exit status. Raises ConfigError, SqlError."""
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
    if options.command == "restore" and options.as_name is not None:
        from shoal.commands import restore_as

        return restore_as.run(options)
    from shoal.commands import backup, check, checkpoint, lead, ledger, status, store
    from shoal.commands.looking import run_looking

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
        return run_looking(work[options.command](options))
    except BrokenPipeError:  # `... | head`
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        raise ConfigError("interrupted") from None
