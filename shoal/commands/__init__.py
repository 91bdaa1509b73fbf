"""The commands for who looks after a cluster: they talk to ZooKeeper, to the store, and to nodes as any client does.

    status.py        nodes, tablespaces, leaders, replicas, and what is wrong
    ledger.py        the changelog's ledgers: which there are, their objects, their entries
    checkpoint.py    a checkpoint now
    lead.py          another node leads
    check.py         whether all replicas hold the same
    store.py         another store; another member for a quorum store, or one less
    looking.py       what they share: opening a cluster without changing it, tables of text, talking SQL

A command prints to standard output and gives the exit status: 0, or 1 when something is wrong with the cluster. What is
wrong with the command line or the way to the cluster is one line on standard error, and 1.
"""

from __future__ import annotations

import argparse
import sys

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
"""

CHECK_EXAMPLES = """examples:
  shoal check --cluster zk://127.0.0.1:2181/shoal
  shoal check --cluster zk://127.0.0.1:2181/shoal --timeout 600 --json
Every replica hashes everything that it holds at one and the same LSN, beside its other work. The exit status is 1 when
hashes differ, or when a replica does not answer in time.
"""

STORE_EXAMPLES = """examples:
  shoal store move --cluster zk://127.0.0.1:2181/shoal s3://logs/shoal
  shoal store replace --cluster zk://127.0.0.1:2181/shoal log://10.0.0.8:7301 log://10.0.0.12:7301
  shoal store drain --cluster zk://127.0.0.1:2181/shoal log://10.0.0.8:7301
Nothing stops meanwhile: what is committed from then on goes to the other members, and what the old one holds, or held,
is copied from those that have it too. When the command ends the old member may be switched off. If it is interrupted
the cluster goes on with the work; shoal_tablespaces shows the stores, with a "-" before members that leave.
"""

LEAD_EXAMPLES = """examples:
  shoal lead --cluster zk://127.0.0.1:2181/shoal n2
The leader commits what it has and steps down; transactions that are open then fail with 40001 and can be retried.
"""

URL = "zk://HOST:PORT,.../NAME"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Their command lines."""
    status = _parser(commands, "status", "show the nodes and replicas of a cluster", STATUS_EXAMPLES)
    _cluster(status)
    status.add_argument("--json", action="store_true", help="one JSON object")
    _ledger(_parser(commands, "ledger", "list, show and read the ledgers of a changelog", LEDGER_EXAMPLES))
    checkpoint = _parser(commands, "checkpoint", "have the leader write a checkpoint now", CHECKPOINT_EXAMPLES)
    where = checkpoint.add_mutually_exclusive_group(required=True)
    where.add_argument("--cluster", metavar=URL, help="where the cluster's ZooKeeper is")
    where.add_argument("--dsn", metavar="DSN", help='of the leader: "host=... port=..." or postgresql://HOST:PORT')
    checkpoint.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    check = _parser(commands, "check", "compare what the replicas hold", CHECK_EXAMPLES)
    _cluster(check)
    check.add_argument("--tablespace", metavar="NAME", help="default: all of them")
    check.add_argument("--timeout", metavar="SECONDS", type=float, default=300.0, help="default: 300")
    check.add_argument("--user", default="postgres", help="a superuser (default: postgres)")
    check.add_argument("--json", action="store_true", help="one JSON object")
    lead = _parser(commands, "lead", "have another node lead", LEAD_EXAMPLES)
    _cluster(lead)
    lead.add_argument("--timeout", metavar="SECONDS", type=float, default=60.0, help="default: 60")
    lead.add_argument("--tablespace", metavar="NAME", default="pg_default", help="default: pg_default")
    lead.add_argument("node", metavar="NODE", help="the node that is to lead")
    _store(_parser(commands, "store", "change the store, or the members of a quorum store", STORE_EXAMPLES))


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


def _store(store: argparse.ArgumentParser) -> None:
    actions = store.add_subparsers(dest="action", metavar="ACTION", required=True)
    move = _parser(actions, "move", "another store, of any kind", STORE_EXAMPLES)
    _cluster(move)
    move.add_argument("--tablespace", metavar="NAME", help="default: pg_default and all that lie where it lies")
    move.add_argument("--no-wait", action="store_true", help="do not wait until something is written there")
    move.add_argument("--timeout", metavar="SECONDS", type=float, default=60.0, help="default: 60")
    move.add_argument("new", metavar="NEW", help="URL of the store")
    for name, text in (("replace", "another member in place of one"), ("drain", "one member less")):
        action = _parser(actions, name, text, STORE_EXAMPLES)
        _cluster(action)
        action.add_argument("--tablespace", metavar="NAME", help="default: all whose store has the member")
        action.add_argument("--no-wait", action="store_true", help="do not wait until the member is no longer needed")
        action.add_argument("old", metavar="OLD", help="URL of the member that leaves")
        if name == "replace":
            action.add_argument("new", metavar="NEW", help="URL of the member that takes its place")


def run_command(options: argparse.Namespace) -> int:
    """Runs one of them; its exit status. Raises ConfigError, SqlError."""
    from shoal.commands import check, checkpoint, lead, ledger, status, store
    from shoal.commands.looking import run_looking

    work = {
        "status": status.run,
        "ledger": ledger.run,
        "checkpoint": checkpoint.run,
        "check": check.run,
        "lead": lead.run,
        "store": store.run,
    }
    try:
        return run_looking(work[options.command](options))
    except BrokenPipeError:  # `... | head`
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        raise ConfigError("interrupted") from None
