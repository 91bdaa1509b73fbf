"""The command line of `shoal pipeline`."""

from __future__ import annotations

import argparse
from typing import Protocol

from shoal.config import ConfigError

IMPORT_EXAMPLES = """examples:
  shoal pipeline import sales.csv sales
  shoal pipeline import 's3a://lake/2026/*.parquet' sales --mode overwrite --master spark://m:7077
  shoal pipeline import --mode upsert --job nightly incoming/ sales            run again: only new files
  shoal pipeline import dump.tsv t --no-header --columns id,name --null '\\\\N' --max-rejected 100
  shoal pipeline import t.json t --schema "id bigint PRIMARY KEY, at timestamptz, data jsonb"
Bad records go to TABLE.rejected.jsonl (--rejects) with file, line, reason and record. If there are more than
--max-rejected, nothing is written. The import is one commit; with --job or --resume there is one commit per --step-size
of files, and running the same command again continues after the last commit.
"""

EXPORT_EXAMPLES = """examples:
  shoal pipeline export sales out/sales
  shoal pipeline export sales s3a://lake/sales --partition-by region,day --mode overwrite
  shoal pipeline export --query "SELECT city, sum(amount) FROM sales GROUP BY city" out/cities --format csv --files 1
  shoal pipeline export big out/big --resume                    run again: continues at the same LSN
All data is read at one LSN, which the summary shows.
"""

COPY_EXAMPLES = """examples:
  shoal pipeline copy --from "host=pg1 user=app dbname=shop" public.orders
  shoal pipeline copy --from "host=pg1 user=app dbname=shop" --schema public --job move
  shoal pipeline copy --from "host=other-shoal user=app" orders --mode overwrite
Missing tables are created with their columns, keys, defaults, constraints, indexes and foreign keys. Reading from
PostgreSQL needs its JDBC driver: --jdbc-driver, or --conf spark.jars.packages=org.postgresql:postgresql:42.7.4. All
tables are read at the same moment; each is written in one commit.
"""

COMPACT_EXAMPLES = """examples:
  shoal pipeline compact /var/backups/shoal                      merges the pieces of the changelog
  shoal pipeline compact s3://backups/shoal --keep 7             and keeps only the newest seven backups
  shoal pipeline compact s3://backups/shoal --master spark://m:7077
The command works on the files and needs no server. The remaining backups can be restored as before, to any LSN since
the oldest of them; `shoal verify` checks them. It can be interrupted and run again. Do not restore from the
same place while it runs.
"""

QUERY_EXAMPLES = """examples:
  shoal pipeline query report.sql
  shoal pipeline query report.sql --output out/report --format csv
  shoal pipeline query -c "SELECT count(*) FROM sales" --master spark://m:7077
  shoal pipeline query report.sql --from-checkpoint /var/backups/shoal          reads the files, not a server
The statements are Spark SQL. Every table is a view at one LSN: tables of public under their own names, tables of other
schemas as SCHEMA_TABLE.
"""

DSN = "host=127.0.0.1 port=5432 user=postgres dbname=postgres"


class _AddParser(Protocol):
    """The function that adds a command's parser: `shoal.commands._parser`."""

    def __call__(
        self, commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, examples: str
    ) -> argparse.ArgumentParser: ...


def add_pipeline(pipeline: argparse.ArgumentParser, add: _AddParser) -> None:
    """Adds the actions of `shoal pipeline`."""
    actions = pipeline.add_subparsers(dest="action", metavar="ACTION", required=True)
    _import(add(actions, "import", "import CSV, JSON or Parquet files into a table", IMPORT_EXAMPLES))
    _export(add(actions, "export", "export a table or a query to Parquet, CSV or JSON files", EXPORT_EXAMPLES))
    _copy(add(actions, "copy", "copy tables from PostgreSQL or another Shoal, with their definitions", COPY_EXAMPLES))
    _compact(add(actions, "compact", "merge the files of backups into fewer and larger ones", COMPACT_EXAMPLES))
    _query(add(actions, "query", "run a file of SQL on Spark, over all tables at one LSN", QUERY_EXAMPLES))


def _export(command: argparse.ArgumentParser) -> None:
    command.add_argument("table", metavar="TABLE", nargs="?", help="table to export, unless --query is given")
    command.add_argument("to", metavar="FOLDER", help="a path or a URL that Spark can write to")
    command.add_argument("--query", metavar="SQL", help="query of the server, instead of a table")
    _add_file_options(command)
    command.add_argument("--partition-by", metavar="NAMES", help="a folder for each value of these columns")
    command.add_argument("--resume", action="store_true", help="write in steps, and continue an interrupted export")
    _common(command)


def _copy(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--from", dest="source", metavar="DSN", required=True, help="connection string of the source server"
    )
    command.add_argument(
        "--from-password-file", metavar="FILE", help="file whose first line is the password at the source"
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("table", metavar="TABLE", nargs="?", help="table to copy, under the same name")
    what.add_argument("--schema", metavar="NAME", help="copy all tables of a schema")
    command.add_argument(
        "--mode", choices=("errorifexists", "append", "overwrite", "upsert"), default="errorifexists",
        help="what to do with tables that exist already (default: %(default)s)",
    )  # fmt: skip
    command.add_argument("--jdbc-driver", metavar="JAR", help="default: /usr/share/java/postgresql.jar, if it exists")
    command.add_argument("--job", metavar="NAME", help="skip the tables that a job of this name has copied")
    command.add_argument(
        "--resume", action="store_true", help="the same as --job, with a name made from the source and the tables"
    )
    _common(command)


def _compact(command: argparse.ArgumentParser) -> None:
    command.add_argument("store", metavar="DIR|URL", help="location of the backups: a directory, s3://..., log://...")
    command.add_argument(
        "--keep", metavar="N", type=int, help="delete all but the newest N backups (default: delete none)"
    )
    command.add_argument(
        "--master", metavar="URL", help="merge in the tasks of this Spark cluster (default: in this process)"
    )
    _spark(command)
    command.add_argument("--json", action="store_true", help="the summary as one JSON object")


def _add_file_options(command: argparse.ArgumentParser) -> None:
    """Adds the options for written files."""
    command.add_argument("--format", choices=("parquet", "csv", "json"), default="parquet", help="default: %(default)s")
    command.add_argument(
        "--mode", choices=("errorifexists", "overwrite"), default="errorifexists", help="default: %(default)s"
    )
    command.add_argument("--files", metavar="N", type=int, help="number of files (default: one per task)")
    _reader_options(command)


def _query(command: argparse.ArgumentParser) -> None:
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("file", metavar="FILE", nargs="?", help="file of statements, each ended by a semicolon")
    what.add_argument("-c", "--command", dest="statements", metavar="SQL", help="statements, instead of a file")
    command.add_argument("--tablespace", metavar="NAME", help="only tables of this tablespace (default: all tables)")
    command.add_argument(
        "--from-checkpoint",
        metavar="FOLDER",
        help="read the newest checkpoint of a folder or a backup, instead of a server",
    )
    command.add_argument(
        "--limit", metavar="N", type=int, default=1000, help="maximum number of rows to show (default: %(default)s)"
    )
    command.add_argument("--output", metavar="FOLDER", help="write the last result to this folder, completely")
    _add_file_options(command)
    _common(command)


def _import(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "source", metavar="SOURCE", nargs="+", help="files, folders, globs or URLs that Spark can read"
    )
    command.add_argument("table", metavar="TABLE", help="target table; created if it does not exist")
    command.add_argument("--format", choices=("csv", "json", "parquet"), help="default: from the names of the files")
    command.add_argument(
        "--mode", choices=("append", "overwrite", "upsert"), default="append", help="default: %(default)s"
    )
    command.add_argument("--schema", metavar="COLUMNS", help="columns of a new table (default: inferred)")
    command.add_argument(
        "--columns",
        metavar="NAMES",
        help="names of the columns in CSV files; the columns to read from JSON and Parquet",
    )
    command.add_argument("--key", metavar="NAMES", help="key for upsert and for a new table (default: primary key)")
    csv = command.add_argument_group("CSV")
    csv.add_argument("--delimiter", metavar="C", help="default: a comma; a tab in .tsv")
    csv.add_argument("--quote", metavar="C", help='default: "')
    csv.add_argument("--escape", metavar="C", help='default: "')
    csv.add_argument("--null", metavar="TEXT", help="text that means NULL (default: an empty field)")
    csv.add_argument("--no-header", action="store_true", help="the first line is data")
    command.add_argument("--multi-line", action="store_true", help="records may span several lines")
    command.add_argument("--encoding", metavar="NAME", help="default: UTF-8")
    _reader_options(command)
    command.add_argument(
        "--max-rejected",
        metavar="N",
        type=int,
        default=0,
        help="maximum number of bad records to accept (default: %(default)s)",
    )
    command.add_argument("--rejects", metavar="FILE", help="file for bad records (default: TABLE.rejected.jsonl)")
    command.add_argument(
        "--job", metavar="NAME", help="commit in steps, and skip the files that a job of this name has committed"
    )
    command.add_argument(
        "--resume", action="store_true", help="the same as --job, with a name made from the sources and the table"
    )
    command.add_argument(
        "--step-size", metavar="SIZE", default="1GiB", help="size of the steps of a job (default: %(default)s)"
    )
    command.add_argument(
        "--partitions", metavar="N", type=int, help="number of tasks that write (default: as many as read)"
    )
    _common(command)


def _reader_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="option for Spark's reader or writer of the format",
    )


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dsn", metavar="DSN", default=DSN,
        help='connection string: "host=... user=..." or postgresql://..., without a password (default: %(default)s)',
    )  # fmt: skip
    command.add_argument(
        "--password-file", metavar="FILE", help="file whose first line is the password (default: PGPASSWORD, ~/.pgpass)"
    )
    command.add_argument(
        "--master", metavar="URL", default="local[*]", help="master URL of Spark (default: %(default)s)"
    )
    _spark(command)
    command.add_argument("--json", action="store_true", help="the summary as one JSON object")


def _spark(command: argparse.ArgumentParser) -> None:
    command.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark")
    command.add_argument("--verbose", action="store_true", help="show the warnings of Spark")


def given_options(options: argparse.Namespace) -> dict[str, str]:
    """The options of Spark's reader from flags of their own and from --option. Raises ConfigError."""
    flags = {
        "sep": options.delimiter, "quote": options.quote, "escape": options.escape, "nullValue": options.null,
        "encoding": options.encoding, "header": "false" if options.no_header else None,
        "multiLine": "true" if options.multi_line else None,
    }  # fmt: skip
    found = {name: value.replace("\\t", "\t") for name, value in flags.items() if value is not None}
    return {**found, **extra_options(options.option)}


def extra_options(given: list[str]) -> dict[str, str]:
    """The options given by --option. Raises ConfigError."""
    found = {}
    for item in given:
        name, separator, value = item.partition("=")
        if not separator:
            raise ConfigError(f'"{item}" is not of the form NAME=VALUE')
        found[name] = value
    return found
