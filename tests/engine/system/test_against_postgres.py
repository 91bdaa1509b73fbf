"""psql's commands, the catalog queries of drivers and tools, and pg_dump: Shoal's answers beside PostgreSQL's."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

HERE = pathlib.Path(__file__).parent
QUERIES = [line for line in (HERE / "queries.sql").read_text().splitlines() if line and not line.startswith("--")]
COMMANDS = (HERE / "commands.psql").read_text().splitlines()
_MARK = "next-command"
_OID = re.compile(r"\b[0-9]{5,}\b")


def _psql(dsn: str, commands: list[str]) -> list[str]:
    """The output of each command of one psql session."""
    script = "".join(f"\\echo {_MARK}\n{command}\n" for command in commands)
    done = subprocess.run(
        ["psql", "-X", "-d", dsn], input=script, capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout.split(f"{_MARK}\n")[1:]


@pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql")
def test_psql_describes_everything_as_it_does_in_postgresql(described: tuple[str, str]) -> None:
    ours, theirs = (_psql(dsn, COMMANDS) for dsn in described)
    assert len(ours) == len(theirs) == len(COMMANDS)
    for command, one, other in zip(COMMANDS, ours, theirs, strict=True):
        assert one == other, command


def _answer(connection: psycopg.Connection, query: str) -> object:
    """The rows, without OIDs of user objects, or the error."""
    try:
        cursor = connection.execute(query.encode())
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary, error.diag.statement_position
    assert cursor.description is not None
    rows = [tuple(column if column is None else _OID.sub("#", column) for column in row) for row in cursor.fetchall()]
    names = [(column.name, column.type_code) for column in cursor.description]
    return names, rows if re.search("order by", query, re.IGNORECASE) else sorted(rows, key=str)


@pytest.fixture(scope="module")
def connections(described: tuple[str, str]) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    made = []
    for dsn in described:
        connection = psycopg.connect(dsn, autocommit=True)
        for info in psycopg.adapters.types:
            connection.adapters.register_loader(info.oid, _Text)
            connection.adapters.register_loader(info.array_oid, _Text)
        made.append(connection)
    yield made[0], made[1]
    for connection in made:  # else the database cannot be dropped
        connection.close()


class _Text(psycopg.adapt.Loader):
    """Values as the server prints them."""

    def load(self, data: psycopg.abc.Buffer) -> str:
        return bytes(data).decode()


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_catalog_queries_give_postgresqls_rows(
    connections: tuple[psycopg.Connection, psycopg.Connection], query: str
) -> None:
    assert _answer(connections[0], query) == _answer(connections[1], query)


@pytest.mark.skipif(shutil.which("pg_dump") is None, reason="needs pg_dump")
def test_pg_dump_writes_the_same_schema(described: tuple[str, str]) -> None:
    dumps = []
    for dsn in described:
        done = subprocess.run(["pg_dump", "-s", "-d", dsn], capture_output=True, text=True, timeout=120, check=True)
        lines = done.stdout.splitlines()
        dumps.append([line for line in lines if not line.startswith(("\\", "-- Dumped"))])
    assert dumps[0] == dumps[1]
