"""A job's access to Shoal (or PostgreSQL) with plain SQL.

A password comes from PGPASSWORD, ~/.pgpass or a file, and never from the command line, which all users of the machine
can read. Spark gets it only as the option "password", which Spark redacts wherever it shows options.

Stages and moments belong to one node, so all connections of a job go to the node that answered first.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import conninfo

from shoal_spark.jobs.summary import JobError
from shoal_spark.reader import columns_of
from shoal_spark.types import SqlColumn

HOLD_SECONDS = 3600  # for which a snapshot stays without a new read
_NOT_PASSED_ON = (
    "password",
    "hostaddr",
    "passfile",
    "service",
    "servicefile",
    "fallback_application_name",
    "replication",
)
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef OR a.attidentity <> '',
       a.attgenerated <> '',
       (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = a.atttypid)
FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])
WHERE i.indrelid = %s::regclass AND i.indisprimary
"""


@dataclass(frozen=True)
class TableColumn:
    """A column that a job writes. `filled`: it has a default; `made`: the server computes all its values."""

    sql: SqlColumn
    type: str  # as SQL writes it
    not_null: bool = False
    filled: bool = False
    made: bool = False
    labels: tuple[str, ...] | None = None  # of an enum

    @property
    def name(self) -> str:
        return self.sql.name


@dataclass(frozen=True)
class ServerAccess:
    """A server that has answered a connection. `parts` and `password` form libpq's connection string."""

    parts: Mapping[str, str]
    password: str = field(default="", repr=False)

    @property
    def display_name(self) -> str:
        """The name of the server in messages."""
        return f"{self.parts.get('host', '')}:{self.parts.get('port', '')}/{self.parts.get('dbname', '')}"

    def options(self, **more: object) -> dict[str, str]:
        """Options of the data source `shoal`."""
        found = {"url": conninfo.make_conninfo("", **self.parts)}
        if self.password:
            found["password"] = self.password
        return {**found, **{name: str(value) for name, value in more.items() if value is not None}}

    @contextmanager
    def connect(self) -> Iterator[psycopg.Connection[Any]]:
        """An autocommit connection."""
        text = conninfo.make_conninfo("", **self.parts, **({"password": self.password} if self.password else {}))
        with psycopg.connect(text, autocommit=True) as connection:
            yield connection


def find_server(dsn: str, password_file: str | None = None) -> ServerAccess:
    """Connects once. Raises JobError, without the text of the DSN; psycopg.OperationalError."""
    try:
        parts = {name: str(value) for name, value in conninfo.conninfo_to_dict(dsn).items()}
    except psycopg.Error:
        raise JobError('the DSN is neither "host=... user=..." nor postgresql://user@host:port/database') from None
    if "password" in parts:
        raise JobError(
            "a password on the command line can be read by everybody on this machine: put it into PGPASSWORD, "
            "~/.pgpass or --password-file"
        )
    if password_file is not None:
        lines = pathlib.Path(password_file).read_text(encoding="utf-8").splitlines()
        parts["password"] = lines[0] if lines else ""
    parts.setdefault("application_name", "shoal pipeline")
    parts.setdefault("connect_timeout", "30")
    with psycopg.connect(conninfo.make_conninfo("", **parts), autocommit=True) as connection:
        # With what came from the environment: tasks elsewhere have another one.
        effective = {option.keyword.decode(): option.val.decode() for option in connection.pgconn.info if option.val}
        kept = {name: value for name, value in effective.items() if name not in _NOT_PASSED_ON}
        kept.update(host=connection.info.host, port=str(connection.info.port), dbname=connection.info.dbname)
        return ServerAccess(kept, connection.info.password)


def exists(connection: psycopg.Connection[Any], table: str) -> bool:
    """Whether the relation exists."""
    return connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)


def table_columns(connection: psycopg.Connection[Any], table: str) -> list[TableColumn]:
    """The columns of a table."""
    kinds = {column.name: column for column in columns_of(connection, table)}
    return [
        TableColumn(kinds[name], kind, not_null, filled, made, None if labels is None else tuple(labels))
        for name, kind, not_null, filled, made, labels in connection.execute(_COLUMNS, (table,)).fetchall()
    ]


def primary_key(connection: psycopg.Connection[Any], table: str) -> list[str]:
    """The columns of the primary key, in no order."""
    return [row[0] for row in connection.execute(_KEY, (table,)).fetchall()]


def hold_moment(connection: psycopg.Connection[Any], seconds: int = HOLD_SECONDS) -> tuple[str, int]:
    """Holds the present committed state. Returns the name for the option "snapshot", and the LSN of pg_default's
    changelog."""
    while True:
        # The position before and after: where nothing was committed between them, it is the moment's.
        row = connection.execute(
            "SELECT pg_current_wal_lsn() - '0/0', shoal_hold_snapshot(%s), pg_current_wal_lsn() - '0/0'", (seconds,)
        ).fetchone()
        assert row is not None
        if row[0] == row[2]:
            return row[1], int(row[0])
        release_moment(connection, row[1])


def release_moment(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute("SELECT shoal_release_snapshot(%s)", (name,))


def size_of(connection: psycopg.Connection[Any], table: str) -> int:
    """Bytes that a table takes in the server."""
    row = connection.execute("SELECT pg_table_size(%s::regclass)", (table,)).fetchone()
    return int(row[0] or 0) if row is not None else 0
