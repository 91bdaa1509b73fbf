"""PostgreSQL's regression scripts, by statement: rows and column names, command tags, SQLSTATEs and messages.

The scripts run in the order of PostgreSQL's schedule in one database. COPY from a file of the scripts' data is sent as
COPY FROM STDIN to both servers, for the server need not be on this machine. What PostgreSQL does not answer the same
way twice (OIDs, times) counts for nothing, and so does what needs PostgreSQL's own test library.
"""

from __future__ import annotations

import hashlib
import pathlib
import re

from psycopg import pq

from tests.conformance import exchange
from tests.conformance.script import Script, Statement
from tests.conformance.suite import OneByOne, Progress, Record, Records, Target, corpora

ORDER = [
    "test_setup", "boolean", "char", "varchar", "text", "int2", "int4", "int8", "float4", "float8", "numeric", "uuid",
    "strings", "date", "time", "timestamp", "timestamptz", "interval", "insert", "insert_conflict", "create_table",
    "create_index", "create_view", "select", "select_distinct", "select_distinct_on", "select_implicit",
    "select_having", "subselect", "union", "case", "join", "aggregates", "transactions", "portals", "arrays", "update",
    "delete", "window", "groupingsets", "jsonb", "limit", "copy2", "prepare", "sequence", "returning", "with",
]  # fmt: skip
PATIENCE = 30.0  # seconds a statement
DATABASE = "regression"
_COPY_FILE = re.compile(r"(\s*copy\s+.*?\bfrom\s+)'([^']*/data/[^']+)'", re.IGNORECASE | re.DOTALL)


class Regress(OneByOne):
    """See the module's text."""

    name = "regress"
    title = "PostgreSQL regress, part"
    unit = "statements"
    floor = 0.85
    seconds = 900.0

    def _scripts(self) -> list[pathlib.Path]:
        place = corpora()
        found = {} if place is None else {path.stem: path for path in (place / "pg_regress" / "sql").glob("*.sql")}
        first = [found.pop(name) for name in ORDER if name in found]
        return first + [found[name] for name in sorted(found)]

    def missing(self) -> str:
        return "" if self._scripts() else "no pg_regress in $SHOAL_CORPORA"

    def fingerprint(self) -> str:
        return hashlib.sha256(b"".join(path.read_bytes() for path in self._scripts())).hexdigest()[:12]

    def run(self, target: Target, progress: Progress) -> Records:
        """PostgreSQL is asked twice: [first, second]."""
        once = self._run(target, progress, DATABASE)
        if target.name != "postgres":
            return once
        again = self._run(target, progress, DATABASE + "2")
        return {test: [record, again.get(test)] for test, record in once.items()}

    def _run(self, target: Target, progress: Progress, database: str) -> Records:
        connection = exchange.connect(target.dsn())
        exchange.run(connection, f"CREATE DATABASE {database} TEMPLATE template0", PATIENCE)
        # as pg_regress sets them
        for setting in ("timezone = 'PST8PDT'", "datestyle = 'postgres, mdy'", "intervalstyle = 'postgres_verbose'"):
            exchange.run(connection, f"ALTER DATABASE {database} SET {setting}", PATIENCE)
        connection.finish()
        records: Records = {}
        scripts = self._scripts()
        for number, path in enumerate(scripts, 1):
            self.cut = progress.left < 0
            if self.cut:
                break
            _run_script(path, target.dsn(database), records)
            progress.step(number, len(scripts), f"scripts ({path.stem})")
        return records

    def counts(self, record: Record) -> bool:
        first, second = record
        sql, results = first
        lost = any(result[0] == "lost" for result in results)
        return second is not None and second[1] == results and not lost and "regresslib" not in sql

    def compare(self, test: str, wanted: Record, got: Record | None) -> str:
        if got is None:
            return "not run"
        sql, results = wanted[0]
        return exchange.difference(sql, results, got[1])


def _run_script(path: pathlib.Path, dsn: str, records: Records) -> None:
    connection = exchange.connect(dsn)
    environment = {"PG_ABS_SRCDIR": str(path.parent.parent), "PG_LIBDIR": ":regresslib", "PG_DLSUFFIX": ".so"}
    script = Script(path.read_text(encoding="utf-8", errors="replace"), environment)
    seen: dict[int, int] = {}
    for statement in script:
        if connection.status != pq.ConnStatus.OK:
            connection = exchange.connect(dsn)
        _with_file_data(statement)
        results = exchange.run(connection, statement.sql, PATIENCE, statement.data)
        number = seen[statement.line] = seen.get(statement.line, 0) + 1
        records[f"{path.stem}:{statement.line}" + (f".{number}" if number > 1 else "")] = [statement.sql, results]
        rows = results[-1] if results and results[-1][0] == "rows" else None
        if rows is None:
            continue
        if statement.after == "gset" and len(rows[2]) == 1:
            for name, value in zip(rows[1], rows[2][0], strict=True):
                script.variables[statement.prefix + name] = value or ""
        elif statement.after == "gexec":
            for number, cell in enumerate(value for row in rows[2] for value in row if value):
                record = [cell, exchange.run(connection, cell, PATIENCE)]
                records[f"{path.stem}:{statement.line}.gexec{number}"] = record
    connection.finish()


def _with_file_data(statement: Statement) -> None:
    found = _COPY_FILE.match(statement.sql)
    if found is not None and pathlib.Path(found[2]).exists():
        statement.data = pathlib.Path(found[2]).read_text()
        statement.sql = f"{found[1]}STDIN{statement.sql[found.end() :]}"
