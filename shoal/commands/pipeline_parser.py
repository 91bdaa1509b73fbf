"""The command line of `shoal pipeline`."""

from __future__ import annotations

import argparse
from typing import Protocol

from shoal.config import ConfigError

IMPORT_EXAMPLES = """examples:
  shoal pipeline import sales.csv sales
  shoal pipeline import 's3a://lake/2026/*.parquet' sales --mode overwrite --master spark://m:7077
  shoal pipeline import --mode upsert --job nightly incoming/ sales            again: only files that are new
  shoal pipeline import dump.tsv t --no-header --columns id,name --null '\\\\N' --max-rejected 100
  shoal pipeline import t.json t --schema "id bigint PRIMARY KEY, at timestamptz, data jsonb"
Bad records go into TABLE.rejected.jsonl (--rejects) with file, line, reason and record; more than --max-rejected of
them, and nothing is written. Everything is one commit; with --job or --resume one for each --step-size of files, and
the same command goes on behind what was committed.
"""

EXPORT_EXAMPLES = """examples:
  shoal pipeline export sales out/sales
  shoal pipeline export sales s3a://lake/sales --partition-by region,day --mode overwrite
  shoal pipeline export --query "SELECT city, sum(amount) FROM sales GROUP BY city" out/cities --format csv --files 1
  shoal pipeline export big out/big --resume                    again: goes on, at the same LSN
All of it is as of one LSN, which the summary says.
"""

COPY_EXAMPLES = """examples:
  shoal pipeline copy --from "host=pg1 user=app dbname=shop" public.orders
  shoal pipeline copy --from "host=pg1 user=app dbname=shop" --schema public --job move
  shoal pipeline copy --from "host=other-shoal user=app" orders --mode overwrite
Tables that are missing are made: columns, keys, defaults, constraints, indexes, foreign keys. From PostgreSQL rows come
by its JDBC driver: --jdbc-driver, or --conf spark.jars.packages=org.postgresql:postgresql:42.7.4. All are read in
one moment; each is one commit.
"""

COMPACT_EXAMPLES = """examples:
  shoal pipeline compact /var/backups/shoal                      pieces of the changelog become few and large
  shoal pipeline compact s3://backups/shoal --keep 7             and only the newest seven backups stay
  shoal pipeline compact s3://backups/shoal --master spark://m:7077
It works on a place of backups, and asks no server. What is left restores as before, to any LSN from the oldest backup
on; `shoal verify` reads it whole. It can be interrupted and run again; no restore should be reading meanwhile.
"""

QUERY_EXAMPLES = """examples:
  shoal pipeline query report.sql
  shoal pipeline query report.sql --output out/report --format csv
  shoal pipeline query -c "SELECT count(*) FROM sales" --master spark://m:7077
  shoal pipeline query report.sql --from-checkpoint /var/backups/shoal          no server is asked
The statements are Spark's SQL. All tables are views at one LSN: those of public by their names, those of other schemas
as SCHEMA_TABLE.
"""

DSN = "host=127.0.0.1 port=5432 user=postgres dbname=postgres"


class _Add(Protocol):
    """How the commands make a parser: `shoal.commands._parser`."""

    def __call__(
        self, commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, examples: str
    ) -> argparse.ArgumentParser: ...


def add_pipeline(pipeline: argparse.ArgumentParser, add: _Add) -> None:
    """Its actions."""
    actions = pipeline.add_subparsers(dest="action", metavar="ACTION", required=True)
    _import(add(actions, "import", "CSV, JSON or Parquet into a table", IMPORT_EXAMPLES))
    _export(add(actions, "export", "a table or a query into Parquet, CSV or JSON", EXPORT_EXAMPLES))
    _copy(add(actions, "copy", "tables of PostgreSQL or another Shoal, with their definitions", COPY_EXAMPLES))
    _compact(add(actions, "compact", "a place of backups into fewer and larger files", COMPACT_EXAMPLES))
    _query(add(actions, "query", "a file of SQL on Spark, over all tables at one LSN", QUERY_EXAMPLES))


def _export(command: argparse.ArgumentParser) -> None:
    command.add_argument("table", metavar="TABLE", nargs="?", help="or --query")
    command.add_argument("to", metavar="FOLDER", help="a path, or a URL that Spark writes to")
    command.add_argument("--query", metavar="SQL", help="of the server, in place of a table")
    _written(command)
    command.add_argument("--partition-by", metavar="NAMES", help="a folder for each value of these columns")
    command.add_argument("--resume", action="store_true", help="in steps; go on with what was broken off")
    _common(command)


def _copy(command: argparse.ArgumentParser) -> None:
    command.add_argument("--from", dest="source", metavar="DSN", required=True, help="of the server to copy from")
    command.add_argument("--from-password-file", metavar="FILE", help="first line: the password there")
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("table", metavar="TABLE", nargs="?", help="there, and here by the same name")
    what.add_argument("--schema", metavar="NAME", help="all tables of a schema")
    command.add_argument(
        "--mode", choices=("errorifexists", "append", "overwrite", "upsert"), default="errorifexists",
        help="with tables that are there already (default: %(default)s)",
    )  # fmt: skip
    command.add_argument("--jdbc-driver", metavar="JAR", help="default: /usr/share/java/postgresql.jar, if it is there")
    command.add_argument("--job", metavar="NAME", help="leave out the tables that a job of this name has copied")
    command.add_argument("--resume", action="store_true", help="--job with a name made of the source and the tables")
    _common(command)


def _compact(command: argparse.ArgumentParser) -> None:
    command.add_argument("store", metavar="DIR|URL", help="of the backups: a directory, s3://..., log://...")
    command.add_argument("--keep", metavar="N", type=int, help="give up all but the newest N (default: none)")
    command.add_argument("--master", metavar="URL", help="of Spark, whose tasks then merge (default: this process)")
    _spark(command)
    command.add_argument("--json", action="store_true", help="the summary as one JSON object")


def _written(command: argparse.ArgumentParser) -> None:
    """How files are written."""
    command.add_argument("--format", choices=("parquet", "csv", "json"), default="parquet", help="default: %(default)s")
    command.add_argument(
        "--mode", choices=("errorifexists", "overwrite"), default="errorifexists", help="default: %(default)s"
    )
    command.add_argument("--files", metavar="N", type=int, help="how many (default: as many as tasks)")
    _reader_options(command)


def _query(command: argparse.ArgumentParser) -> None:
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("file", metavar="FILE", nargs="?", help="of statements, each ended by a semicolon")
    what.add_argument("-c", "--command", dest="statements", metavar="SQL", help="in place of a file")
    command.add_argument("--tablespace", metavar="NAME", help="its tables only (default: all tables)")
    command.add_argument(
        "--from-checkpoint", metavar="FOLDER", help="the newest in a folder or a backup, in place of a server"
    )
    command.add_argument("--limit", metavar="N", type=int, default=1000, help="rows shown (default: %(default)s)")
    command.add_argument("--output", metavar="FOLDER", help="write the last result there, whole")
    _written(command)
    _common(command)


def _import(command: argparse.ArgumentParser) -> None:
    command.add_argument("source", metavar="SOURCE", nargs="+", help="files, folders, globs, URLs that Spark reads")
    command.add_argument("table", metavar="TABLE", help="is made if there is none")
    command.add_argument("--format", choices=("csv", "json", "parquet"), help="default: by the files' names")
    command.add_argument(
        "--mode", choices=("append", "overwrite", "upsert"), default="append", help="default: %(default)s"
    )
    command.add_argument("--schema", metavar="COLUMNS", help="of a table that is made (default: inferred)")
    command.add_argument("--columns", metavar="NAMES", help="of the files' columns; of JSON and Parquet: only these")
    command.add_argument("--key", metavar="NAMES", help="of upsert, and of a table that is made (default: primary key)")
    csv = command.add_argument_group("CSV")
    csv.add_argument("--delimiter", metavar="C", help="default: a comma; a tab in .tsv")
    csv.add_argument("--quote", metavar="C", help='default: "')
    csv.add_argument("--escape", metavar="C", help='default: "')
    csv.add_argument("--null", metavar="TEXT", help="that means NULL (default: an empty field)")
    csv.add_argument("--no-header", action="store_true", help="the first line is a record")
    command.add_argument("--multi-line", action="store_true", help="records may go over several lines")
    command.add_argument("--encoding", metavar="NAME", help="default: UTF-8")
    _reader_options(command)
    command.add_argument("--max-rejected", metavar="N", type=int, default=0, help="default: %(default)s")
    command.add_argument("--rejects", metavar="FILE", help="for bad records (default: TABLE.rejected.jsonl)")
    command.add_argument(
        "--job", metavar="NAME", help="commit in steps, and leave out what a job of this name has done"
    )
    command.add_argument("--resume", action="store_true", help="--job with a name made of the sources and the table")
    command.add_argument("--step-size", metavar="SIZE", default="1GiB", help="of a job's steps (default: %(default)s)")
    command.add_argument("--partitions", metavar="N", type=int, help="how many tasks write (default: as Spark reads)")
    _common(command)


def _reader_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--option", metavar="NAME=VALUE", action="append", default=[], help="of Spark's reader or writer of the format"
    )


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dsn", metavar="DSN", default=DSN,
        help='of the server: "host=... user=..." or postgresql://..., without a password (default: %(default)s)',
    )  # fmt: skip
    command.add_argument(
        "--password-file", metavar="FILE", help="first line: the password (default: PGPASSWORD, ~/.pgpass)"
    )
    command.add_argument("--master", metavar="URL", default="local[*]", help="of Spark (default: %(default)s)")
    _spark(command)
    command.add_argument("--json", action="store_true", help="the summary as one JSON object")


def _spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark")
    command.add_argument("--verbose", action="store_true", help="with Spark's warnings")


def given_options(options: argparse.Namespace) -> dict[str, str]:
    """Options of Spark's reader that have flags of their own, and --option. Raises ConfigError."""
    flags = {
        "sep": options.delimiter, "quote": options.quote, "escape": options.escape, "nullValue": options.null,
        "encoding": options.encoding, "header": "false" if options.no_header else None,
        "multiLine": "true" if options.multi_line else None,
    }  # fmt: skip
    found = {name: value.replace("\\t", "\t") for name, value in flags.items() if value is not None}
    return {**found, **extra_options(options.option)}


def extra_options(given: list[str]) -> dict[str, str]:
    """Of --option. Raises ConfigError."""
    found = {}
    for item in given:
        name, separator, value = item.partition("=")
        if not separator:
            raise ConfigError(f'"{item}" is not of the form NAME=VALUE')
        found[name] = value
    return found
