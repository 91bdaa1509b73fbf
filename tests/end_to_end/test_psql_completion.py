"""What psql offers when Tab is pressed: its completion queries find the same on both servers.

psql runs in a pseudo-terminal, which is read as it looks: in what parts the line editor draws a line is a matter of
time. A character typed behind the Tabs shows that they are answered. Ctrl-U takes away the line.
It works in a database of its own: some completions offer whatever there is.
Not compared: encodings (there are no conversions here) and extensions (there is no PL/pgSQL).
"""

from __future__ import annotations

import os
import pathlib
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.oracle import PostgresServer
from tests.server import ShoalServer

SCHEMA = """
CREATE SCHEMA offers;
SET search_path TO offers;
CREATE TYPE colour AS ENUM ('red', 'green');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TABLE buyers (id serial PRIMARY KEY, name text CONSTRAINT buyers_name UNIQUE, nickname text, "Odd Name" int);
CREATE TABLE bills (id int PRIMARY KEY, buyer int REFERENCES buyers, total numeric);
CREATE INDEX bills_by_buyer ON bills (buyer);
CREATE VIEW big_bills AS SELECT * FROM bills WHERE total > 100;
CREATE SEQUENCE numbers;
"""
LINES = (
    "SELECT * FROM b", "SELECT * FROM offers.b", "SELECT * FROM bu", "SELECT * FROM buyers WHERE n", "TABLE bi",
    "INSERT INTO ", "INSERT INTO buyers (", "UPDATE bu", "UPDATE buyers SET n", "DELETE FROM bill", "TRUNCATE b",
    "DROP TABLE b", "DROP VIEW b", "DROP INDEX bill", "DROP SEQUENCE n", "DROP SCHEMA off", "DROP TYPE ",
    "DROP DOMAIN p", "ALTER TABLE buyers DROP CONSTRAINT ", "ALTER TABLE buyers ALTER COLUMN n",
    "ALTER TABLE buyers RENAME COLUMN ", "ALTER SEQUENCE n", "ALTER INDEX buyers_", "ALTER TYPE col",
    "ALTER ROLE post", "ALTER DATABASE post", "CREATE INDEX ON bi", "CREATE INDEX ON bills (", "COMMENT ON TABLE b",
    "COMMENT ON COLUMN offers.buyers.n", "COMMENT ON CONSTRAINT buyers_n", "GRANT SELECT ON bu", "LOCK TABLE b",
    "ANALYZE bu", "VACUUM bi", "REINDEX INDEX bills_", "SET search_path TO off", "SET TimeZone TO 'Europe/Ber",
    "SHOW work_", "SET ROLE post", "SELECT nextval('n", r"\d b", r"\dt bu", r"\di bills_", r"\dv bi", r"\ds n",
    r"\dn off", r"\dT col", r"\dD p", r"\du post", r"\df regexp_c", r"\c post", r"\sv bi", r"\db pg_d", r"\ef abbr",
    "COPY b", r"\copy b", "EXPLAIN SELECT * FROM bu", "SELECT 'red'::offers.col", "BEGIN ISOLATION LEVEL R",
    "WITH x AS (SELECT * FROM bu",
)  # fmt: skip
DATABASE = "completion"
LIMIT = 30.0  # seconds
PROMPT = "=> "
END = "~"


def screen(said: str) -> str:
    """The lines that stand in a dumb terminal which was told this."""
    lines: list[list[str]] = [[]]
    at = 0  # the cursor's column in the last line
    for character in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x07", "", said):
        if character == "\n":
            lines.append([" "] * at)
        elif character == "\r":
            at = 0
        elif character == "\b":
            at -= 1
        else:
            lines[-1][at : at + 1] = character
            at += 1
    return "\n".join("".join(line) for line in lines)


class Terminal:
    """psql in a pseudo-terminal, with a line editor that never asks back."""

    def __init__(self, server: ShoalServer | PostgresServer, settings: pathlib.Path) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "PAGER": "", "INPUTRC": str(settings), "COLUMNS": "200"}
        dsn = make_conninfo(server.dsn, dbname=DATABASE, options="-c search_path=offers")
        self._process = subprocess.Popen(
            ["psql", "-X", "-q", "-v", f"PROMPT1={PROMPT}", dsn],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True, close_fds=True,
        )  # fmt: skip
        os.close(slave)
        self._said = ""
        self._until(PROMPT)

    def offered(self, line: str) -> set[str]:
        """The words that two Tabs behind this text bring up, or complete it to."""
        self._said = PROMPT
        os.write(self._master, line.encode())
        self._until(line.rstrip())
        os.write(self._master, b"\t\t" + END.encode())  # what stands behind the line when both are answered
        shown = self._until(END).removesuffix(END)
        os.write(self._master, b"\x15\n")
        self._until("\n" + PROMPT)
        return set(shown.split())

    def _until(self, end: str) -> str:
        """What stands in the terminal once its last line ends so."""
        deadline = time.monotonic() + LIMIT
        while not (shown := screen(self._said)).rstrip().endswith(end.rstrip()):
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"psql says nothing more: {self._said[-500:]!r}"
            self._said += os.read(self._master, 65536).decode(errors="replace")
        return shown.rstrip()

    def close(self) -> None:
        os.write(self._master, b"\x15\\q\n")
        self._process.wait(LIMIT)
        os.close(self._master)


@pytest.fixture(scope="module")
def terminals(
    shoal: ShoalServer, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Terminal]]:
    """psql at Shoal and at PostgreSQL, with the same objects."""
    settings = tmp_path_factory.mktemp("readline") / "inputrc"
    settings.write_text("set completion-query-items 0\nset page-completions off\nset enable-bracketed-paste off\n")
    servers = (shoal, postgres_server)
    for server in servers:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}".encode())
        with psycopg.connect(make_conninfo(server.dsn, dbname=DATABASE), autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
    opened = [Terminal(server, settings) for server in servers]
    yield opened
    for terminal in opened:
        terminal.close()
    for server in servers:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)".encode())


@pytest.mark.parametrize("line", LINES)
def test_tab_offers_the_same(terminals: list[Terminal], line: str) -> None:
    ours, theirs = (terminal.offered(line) for terminal in terminals)
    assert ours == theirs


def test_something_is_offered(terminals: list[Terminal]) -> None:
    assert {"buyers", "bills", "big_bills"} <= terminals[0].offered("SELECT * FROM b")
    assert {"name", "nickname"} <= terminals[0].offered("SELECT * FROM buyers WHERE n")
