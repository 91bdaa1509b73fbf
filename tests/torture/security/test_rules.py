"""Rules of security that a server keeps whoever asks: what comes before a session, who is told what, which texts are
taken. (Passwords, TLS and host rules: tests/end_to_end/test_access.py; ZooKeeper's: tests/replication/zookeeper.)"""

from __future__ import annotations

import ast
import pathlib
import re
import socket
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import psycopg
import pytest

from tests.end_to_end.test_access import ends
from tests.oracle import PostgresServer, free_port
from tests.samples import some
from tests.server import ROOT, ShoalServer
from wire.scram import MECHANISM, Exchange

PACKAGES = ("catalog", "engine", "replication", "shoal", "shoal_spark", "wire")
CANARY = "canary-58c1f0"


class NarrowServer(ShoalServer):
    """For three connections; with secrets in its environment, and an administration port."""

    def __init__(self) -> None:
        super().__init__()
        self.admin = free_port()

    def command(self) -> list[str]:
        secrets = ("SHOAL_STORE_SECRET", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD")
        given = [f"{name}={CANARY}-of-the-environment" for name in secrets]
        options = ["--admin", f"127.0.0.1:{self.admin}"]
        return ["env", "SHOAL_MAX_CONNECTIONS=3", "SHOAL_LOG_CONNECTIONS=true", *given, *super().command(), *options]


@pytest.fixture(scope="module")
def narrow() -> Iterator[NarrowServer]:
    with NarrowServer() as server:
        yield server


def raw(server: ShoalServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 20)


def test_silent_connections_do_not_use_up_the_limit(narrow: NarrowServer) -> None:
    """There is room for a fourth as many beside the cap; the one that has waited for longest makes room, unread."""
    held = [raw(narrow) for _ in range(5)]
    try:
        answer = ends(held[0])
        assert b"C53300\0" in answer and b"too many clients" in answer
        with psycopg.connect(narrow.dsn, connect_timeout=20) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        for connection in held:
            connection.close()


def challenge(name: str) -> str:
    found = Exchange(None, name, b"key").first(MECHANISM, b"n,,n=,r=client")
    return found.decode().partition(",s=")[2]


def test_an_unknown_user_gets_the_same_salt_every_time() -> None:
    """Another salt at each attempt would tell who does not exist."""
    assert challenge("nobody") == challenge("nobody") != challenge("nobody else")


def test_passwords_are_kept_as_verifiers_only(private_shoal: ShoalServer) -> None:
    with psycopg.connect(private_shoal.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE kept LOGIN PASSWORD '{CANARY}'".encode())
        connection.execute(f"ALTER ROLE kept PASSWORD '{CANARY}-2'".encode())
        shown = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'kept'").fetchall()
        assert shown == [("********",)]
        connection.execute("CHECKPOINT")
    private_shoal.stop()
    for path in private_shoal.data.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path


def test_secrets_are_neither_in_settings_nor_metrics_nor_the_log(narrow: NarrowServer) -> None:
    shown: list[object] = []
    with psycopg.connect(narrow.dsn, autocommit=True) as connection:
        connection.execute("SET log_min_duration_statement = 0")
        connection.execute(f"CREATE ROLE shown LOGIN PASSWORD '{CANARY}'".encode())
        for mistake in (f"ALTER ROLE shown PASWORD '{CANARY}'", f"ALTER ROLE shown PASSWORD '{CANARY}' NONSENSE"):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(mistake.encode())
            assert caught.value.diag.message_primary is not None
        shown += connection.execute("SHOW ALL").fetchall()
        shown += connection.execute("SELECT * FROM pg_settings").fetchall()
        shown += connection.execute("SELECT * FROM pg_stat_activity").fetchall()
        relations = connection.execute("SELECT relname FROM pg_class WHERE relname ~ '^(shoal|pg_stat)_'").fetchall()
        assert len(relations) > 10
        for (name,) in relations:
            try:
                shown += connection.execute(f"SELECT t::text FROM {name} t".encode()).fetchall()
            except psycopg.errors.FeatureNotSupported:
                continue
    for page in ("metrics", "healthz", "readyz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{narrow.admin}/{page}", timeout=20) as answer:
            shown.append(answer.read().decode())
    assert CANARY not in repr(shown)
    log = narrow.log.read_text()
    assert "shown" in log and CANARY not in log


BAD_TEXTS = (
    b"SELECT 'a\xff'",
    b"SELECT '\xc3'",
    b"SELECT '\xed\xa0\x80'",
    b'SELECT 1 AS "\xf8"',
    b"\xfe",
    b"SELECT 1 -- \xff",
)


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_texts_that_are_not_utf8_are_refused(server: ShoalServer | PostgresServer, text: bytes) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        wire = connection.pgconn
        found = [wire.exec_(text), wire.prepare(b"", text), wire.exec_params(b"SELECT $1::text", [text])]
        assert [result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) for result in found] == [b"22021"] * 3
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_parameter_with_a_nul_is_refused(server: ShoalServer | PostgresServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        found = connection.pgconn.exec_params(b"SELECT $1::text", [b"a\0b"], param_formats=[1])
        assert found.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22021"


def test_a_nul_within_a_query_message_is_refused(server: ShoalServer | PostgresServer) -> None:
    startup = struct.pack(">i", 196608) + b"user\0postgres\0database\0postgres\0\0"
    text = b"SELECT 1\0; SELECT 2\0"
    given = psycopg.conninfo.conninfo_to_dict(server.dsn)
    with socket.create_connection((str(given["host"]), int(str(given["port"]))), 20) as connection:
        connection.sendall(struct.pack(">i", len(startup) + 4) + startup)
        connection.sendall(b"Q" + struct.pack(">i", len(text) + 4) + text + b"X\0\0\0\4")
        answer = ends(connection)
        # PostgreSQL reads up to the NUL, and then says that the message is too long.
        assert (b"C22021\0" if isinstance(server, ShoalServer) else b"C08P01\0") in answer
        assert b"CSELECT" not in answer


NESTED = {
    "parentheses": ("(", "1", ")"),
    "NOT": ("NOT ", "true", ""),
    "signs": ("- ", "1", ""),
    "CASE": ("CASE WHEN true THEN ", "1", " END"),
    "arrays": ("ARRAY[", "1", "]"),
    "sub-queries": ("(SELECT ", "1", ")"),
    "rows": ("ROW(", "1", ")"),
    "calls": ("abs(", "1", ")"),
    "casts": ("", "1", "::int"),
    "sums": ("", "1", " + 1"),
    "conditions": ("(true AND (false OR ", "true", "))"),
    "FROM": ("1 FROM (SELECT ", "1", ") x"),
    "subscripts": ("", "('{1}'::int[])", "[1]"),
    "comments": ("/*", "", "*/ 1"),
}


@pytest.mark.parametrize("name", some(NESTED, 2))
def test_however_deep_a_text_nests_it_is_answered_or_refused(shoal: ShoalServer, name: str) -> None:
    before, inner, after = NESTED[name]
    with psycopg.connect(shoal.dsn, autocommit=True) as connection:
        connection.execute("SET statement_timeout = '10s'")  # some take time that grows with the square of the depth
        for depth in (10, 1_100, 50_000):
            for path in ("auto", "columnar"):
                connection.execute(f"SET shoal.path = {path}".encode())
                try:
                    connection.execute(f"SELECT {before * depth}{inner}{after * depth}".encode()).fetchall()
                except psycopg.Error as error:
                    allowed = ("0A000", "42846", "54000", *(("54001", "57014") if depth > 10 else ()))
                    assert error.sqlstate in allowed, f"{depth}, {path}: {error}"


def test_nothing_is_pickled() -> None:
    """What is read back as objects runs whatever is in it."""
    forbidden = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal", "joblib", "jsonpickle"}
    texts = {path: path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert len(texts) > 300
    for path, text in texts.items():
        assert "allow_pickle" not in text and "np.load(" not in text, path
        for node in ast.walk(ast.parse(text)) if any(name in text for name in forbidden) else ():
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & forbidden, path


def test_every_directory_is_for_its_user_alone() -> None:
    """Commands, and programs that the server is part of, have their user's umask."""
    made = 0
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "makedirs" in text or "mkdir" in text else ():
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    given = [*node.args, *(keyword.value for keyword in node.keywords)]
                    if node.func.attr in ("makedirs", "mkdir"):
                        made += 1
                        assert any(isinstance(one, ast.Constant) and one.value == 0o700 for one in given), path
    assert made > 20


def test_what_commands_make_is_for_their_user_alone(tmp_path: pathlib.Path) -> None:
    """Whatever the umask is: a directory made before the command is anybody's to look into."""
    data = tmp_path / "data"
    data.mkdir()
    script = f"""
import os, sys
os.umask(0)
from shoal.cli import main
assert main(["init", "--data", {str(data)!r}]) == 0
text = "CREATE TABLE t AS SELECT g, repeat('x', 100) AS x FROM generate_series(1, 50000) g; SELECT count(*) FROM t"
assert main(["sql", "--data", {str(data)!r}, text]) == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    found = [path for path in data.rglob("*") if path.lstat().st_mode & 0o077]
    assert not found and len(list(data.rglob("*"))) > 5


def test_no_option_takes_a_secret() -> None:
    """Whoever may list processes reads command lines: secrets come from the environment or a file."""
    options: set[str] = set()
    for path in [*(ROOT / "shoal").rglob("*.py"), *(ROOT / "shoal_spark").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                options |= {str(item.value) for item in node.args if isinstance(item, ast.Constant)}
    assert len(options) > 50
    secrets = {option for option in options if re.search("password|secret|token", option)}
    assert all(option.endswith("-file") for option in secrets), secrets
