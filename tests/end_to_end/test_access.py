"""Passwords, TLS and host rules, as clients meet them; and what somebody may try who has not said who he is."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests import forks
from tests.oracle import free_port
from tests.replication.stores.certificates import Certificate, make_certificate
from tests.server import ShoalServer
from wire import password_throttle

RULES = """
host      all  postgres      127.0.0.1/32  trust
hostssl   all  secured       127.0.0.1/32  scram-sha-256
hostnossl all  +plain        127.0.0.1/32  reject
host      all  all           127.0.0.1/32  scram-sha-256
"""
PASSWORD = "pä ss\u00a0word'\u00ad!"  # SASLprep makes a space and nothing of two of its letters
SSL_REQUEST = struct.pack(">ii", 8, 80877103)


class GuardedServer(ShoalServer):
    """With host rules and a certificate."""

    def __init__(self, folder: pathlib.Path, certificate: Certificate) -> None:
        super().__init__()
        rules = folder / "hosts"
        rules.write_text(RULES)
        self._options = ["--host-rules", str(rules), "--tls-cert", certificate.cert, "--tls-key", certificate.key]

    def command(self) -> list[str]:
        return [*super().command(), *self._options]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "shoal")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, certificate: Certificate) -> Iterator[GuardedServer]:
    with GuardedServer(tmp_path_factory.mktemp("rules"), certificate) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            quoted = PASSWORD.replace("'", "''")
            for name in ("ann", "secured", "expired"):
                connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{quoted}'".encode())
            connection.execute(b"ALTER ROLE expired VALID UNTIL '2020-01-01'")
            connection.execute(b"CREATE ROLE empty LOGIN")
            connection.execute(b"CREATE ROLE plain; CREATE ROLE member LOGIN PASSWORD 'x' IN ROLE plain")
            connection.execute(f"CREATE ROLE barred NOLOGIN PASSWORD '{quoted}'".encode())
        yield server


def connect(server: ShoalServer, user: str, password: str | None = None, **options: str) -> psycopg.Connection:
    return psycopg.connect(
        host="127.0.0.1", port=server.port, dbname="postgres", user=user, password=password, connect_timeout=10,
        **{"sslmode": "disable", **options},
    )  # fmt: skip


def refusal(server: ShoalServer, user: str, password: str | None = None, **options: str) -> str:
    with pytest.raises(psycopg.OperationalError) as caught:
        connect(server, user, password, **options)
    return str(caught.value)


def test_the_right_password_lets_in(guarded: GuardedServer) -> None:
    with connect(guarded, "ann", PASSWORD) as connection:
        assert connection.execute("SELECT current_user, 1").fetchall() == [("ann", 1)]
    with connect(guarded, "postgres") as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


@pytest.mark.parametrize("user", ["ann", "expired", "empty", "nobody", "barred"])
def test_every_reason_for_a_refusal_sounds_the_same(guarded: GuardedServer, user: str) -> None:
    wrong = "wrong" if user in ("ann", "barred") else PASSWORD
    assert f'password authentication failed for user "{user}"' in refusal(guarded, user, wrong)


def test_who_may_not_log_in_is_told_so_with_the_right_password_only(guarded: GuardedServer) -> None:
    assert "not permitted to log in" in refusal(guarded, "barred", PASSWORD)


def test_the_commands_have_passwords_and_tls_as_psql_has_them(guarded: GuardedServer, tmp_path: pathlib.Path) -> None:
    with connect(guarded, "postgres") as connection:
        connection.execute("DROP ROLE IF EXISTS keeper")
        connection.execute("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'open sesame' IN ROLE plain")
        connection.execute("CREATE TABLE IF NOT EXISTS streamed (id int PRIMARY KEY)")
        connection.execute("DROP CHANGE STREAM IF EXISTS s")
        connection.execute("CREATE CHANGE STREAM s FOR TABLE streamed")
    where = f"host=127.0.0.1 port={guarded.port} user=keeper dbname=postgres"
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:keeper:open sesame\n")
    passwords.chmod(0o600)
    known = {**os.environ, "PGPASSFILE": str(passwords)}
    backups = str(tmp_path / "backups")
    for command in (
        ("sql", "SELECT 1"), ("backup", backups), ("restore", backups, "--as", "beside"), ("changes", "s"),
    ):  # fmt: skip
        done = forks.run(*command, "--dsn", f"{where} sslmode=require", environment=known)
        assert done.returncode == 0, done.stdout + done.stderr
    assert forks.run("checkpoint", "--dsn", where, environment=known).stderr.count("not part of a cluster") == 1
    url = f"postgresql://keeper:wrong@127.0.0.1:{guarded.port}/?sslmode=require"
    refused = forks.run("backup", backups, "--dsn", url)
    assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1
    assert 'password authentication failed for user "keeper"' in refused.stderr and "wrong" not in refused.stderr
    refused = forks.run("backup", backups, "--dsn", f"{where} sslmode=disable", environment=known)
    assert refused.returncode == 1 and 'no host rule allows user "keeper"' in refused.stderr


def test_pg_stat_ssl_shows_what_psql_has_agreed_on(guarded: GuardedServer) -> None:
    query = "SELECT ssl, version, cipher, bits, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    for mode in ("disable", "require"):
        url = f"host=127.0.0.1 port={guarded.port} user=ann dbname=postgres sslmode={mode}"
        done = subprocess.run(
            ["psql", "-XAt", url, "-c", "\\conninfo", "-c", query, "-c", "SELECT count(*) FROM pg_stat_ssl", "-c",
             "SELECT gss_authenticated, encrypted FROM pg_stat_gssapi WHERE pid = pg_backend_pid()"],
            env={**os.environ, "PGPASSWORD": PASSWORD}, capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        told = re.search(r"protocol: ([^,]+), cipher: ([^,)]+)", done.stdout)
        *_, row, others, kerberos = done.stdout.splitlines()
        assert (told is None) == (mode == "disable") and kerberos == "f|f"
        ssl_used, version, cipher, bits, client = row.split("|")
        assert (version, cipher) == (told.groups() if told is not None else ("", ""))
        assert (ssl_used, bits in ("128", "256"), client) == ("t" if told else "f", told is not None, "")
        assert others == "1"  # those of other roles are not for ann
    with connect(guarded, "postgres") as connection:  # a superuser sees all
        found = connection.execute("SELECT count(*) FROM pg_stat_ssl WHERE NOT ssl").fetchone()
        assert found == (1,)


def test_channel_binding_is_refused_to_whom_insists(guarded: GuardedServer) -> None:
    assert "channel binding" in refusal(guarded, "ann", PASSWORD, sslmode="require", channel_binding="require")


def test_rules_decide_by_role_and_encryption(guarded: GuardedServer) -> None:
    with connect(guarded, "secured", PASSWORD, sslmode="require") as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
    assert 'no host rule allows user "member"' in refusal(guarded, "member", "x")
    with connect(guarded, "member", "x", sslmode="require"):
        pass


@pytest.mark.parametrize("negotiation", ["postgres", "direct"])
def test_tls_by_request_and_from_the_first_byte_on(
    guarded: GuardedServer, certificate: Certificate, negotiation: str
) -> None:
    options = {"sslmode": "verify-full", "sslrootcert": certificate.cert, "sslnegotiation": negotiation}
    with connect(guarded, "ann", PASSWORD, **options) as connection:
        assert connection.pgconn.ssl_in_use
        rows = connection.execute("SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) g").fetchall()
        assert len(rows) == 3000
        connection.execute("CREATE TEMP TABLE loaded (v text)")
        with connection.cursor().copy("COPY loaded FROM STDIN") as copy:
            for _ in range(2000):
                copy.write("y" * 1000 + "\n")
        assert connection.execute("SELECT count(*) FROM loaded").fetchone() == (2000,)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")  # that it is old is the matter here
def test_old_versions_of_tls_are_refused(guarded: GuardedServer) -> None:
    context = _client(alpn=True)
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with raw(guarded) as connection, pytest.raises((ssl.SSLError, ConnectionError)):
        connection.sendall(SSL_REQUEST)
        assert connection.recv(1) == b"S"
        context.wrap_socket(connection)


def raw(server: ShoalServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 10)


def _client(alpn: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(["postgresql"])
    return context


def ends(connection: socket.socket) -> bytes:
    """What comes until the server hangs up."""
    found = b""
    while True:
        try:
            data = connection.recv(1 << 16)
        except ConnectionError:
            return found
        if not data:
            return found
        found += data


def test_direct_tls_is_for_postgresql_clients(guarded: GuardedServer) -> None:
    with raw(guarded) as connection, _client(alpn=False).wrap_socket(connection) as secured:
        secured.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert ends(secured) == b""


def test_what_comes_in_the_clear_behind_an_ssl_request_is_fatal(guarded: GuardedServer) -> None:
    """CVE-2021-23214, in one packet and in two."""
    startup = b"user\0postgres\0database\0postgres\0\0"
    injected = struct.pack(">ii", len(startup) + 8, 196608) + startup
    with raw(guarded) as connection:
        connection.sendall(SSL_REQUEST + injected)
        assert b"unencrypted data after SSL request" in ends(connection)
    with raw(guarded) as connection:
        connection.sendall(SSL_REQUEST)
        connection.sendall(injected)
        assert b"AuthenticationOk" not in (answer := ends(connection)) and b"R\0\0\0\x08" not in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"p\0\0\0\x03",  # a length below 4
        b"p\x7f\xff\xff\xff",
        b"p\0\x01\0\x05",  # longer than 64 KiB
        b"Q\0\0\0\x0dSELECT 1\0",
        b"p\0\0\0\x08\0\0\0\0",
        b"p\0\0\0\x18SCRAM-SHA-256\0\0\0\0\x02n,",
        b"p\0\0\0\x1cSCRAM-SHA-1\0\0\0\0\x08n,,n=,r=a",
    ],
)
def test_nothing_but_a_proof_may_come_before_the_session(guarded: GuardedServer, sent: bytes) -> None:
    with raw(guarded) as connection:
        body = b"user\0ann\0database\0postgres\0\0"
        connection.sendall(struct.pack(">ii", len(body) + 8, 196608) + body)
        assert connection.recv(100).startswith(b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0")
        connection.sendall(sent)
        answer = ends(connection)
        assert answer.startswith(b"E") and b"C08P01\0" in answer and b"SFATAL\0" in answer


def test_a_flood_before_the_session_is_cut_off(guarded: GuardedServer) -> None:
    with raw(guarded) as connection:
        try:
            for _ in range(64):
                connection.sendall(b"\0\0\x20\0" * (1 << 16))
        except (BrokenPipeError, ConnectionResetError):
            return
        assert b"invalid length of startup packet" in ends(connection)


def test_a_server_without_a_password_rule_stays_on_this_machine(tmp_path: pathlib.Path) -> None:
    def start(*options: str) -> str:
        done = forks.run("serve", "--data", str(tmp_path / "data"), *options)
        assert done.returncode != 0
        return done.stderr.splitlines()[-1]

    listen = ("--listen", f"0.0.0.0:{free_port()}")
    assert "refusing to listen on 0.0.0.0" in start(*listen)
    rules = tmp_path / "hosts"
    rules.write_text("host all all 127.0.0.1/32 trust\n")
    assert "--host-rules FILE with a line like" in start(*listen, "--host-rules", str(rules))
    rules.write_text("host all all 0.0.0.0/0 trust\n")
    assert f"{rules}, line 1: trust is for addresses of this machine only" in start("--host-rules", str(rules))
    rules.write_text("hostssl all all all scram-sha-256\n")
    assert "give --tls-cert too" in start("--host-rules", str(rules))
    assert "cannot read the host rules" in start("--host-rules", str(tmp_path / "missing"))


def test_silence_before_the_session_ends_in_ten_seconds(guarded: GuardedServer) -> None:
    with raw(guarded) as connection, raw(guarded) as second:
        second.sendall(SSL_REQUEST)
        assert second.recv(1) == b"S"
        connection.settimeout(20)
        second.settimeout(20)
        began = time.monotonic()
        assert ends(connection) == b"" and ends(second) == b""
        assert 5 < time.monotonic() - began < 18


# ---- guesses --------------------------------------------------------------------------------------------------------


def salt(server: ShoalServer, user: str) -> bytes:
    """What a client that names the user is asked with."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        body = struct.pack(">i", 196608) + f"user\0{user}\0database\0postgres\0\0".encode()
        connection.sendall(struct.pack(">i", len(body) + 4) + body)
        first = b"n,,n=,r=client"
        body = b"SCRAM-SHA-256\0" + struct.pack(">i", len(first)) + first
        connection.recv(1000)
        connection.sendall(b"p" + struct.pack(">i", len(body) + 4) + body)
        return connection.recv(1000).partition(b",s=")[2]


def test_salts_of_unknown_users_stay_after_a_restart(certificate: Certificate, tmp_path: pathlib.Path) -> None:
    with GuardedServer(tmp_path, certificate) as server:
        before = [salt(server, f"nobody{number}") for number in range(3)]
        assert len(set(before)) == 3 and all(before)
        server.stop()
        server.start()
        assert [salt(server, f"nobody{number}") for number in range(3)] == before


def test_wrong_passwords_are_answered_later_and_later(certificate: Certificate, tmp_path: pathlib.Path) -> None:
    with GuardedServer(tmp_path, certificate) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(b"CREATE ROLE ann LOGIN PASSWORD 'right'")
        began = time.monotonic()
        for _ in range(password_throttle.FREE):
            assert "password authentication failed" in refusal(server, "ann", "wrong")
        quick = time.monotonic() - began
        began = time.monotonic()
        for name in ("ann", "nobody", "ann"):  # 0.1, 0.2 and 0.4 s
            assert "password authentication failed" in refusal(server, name, "wrong")
        assert time.monotonic() - began > 0.7
        with ThreadPoolExecutor(4 * password_throttle.PENDING) as pool:
            flood = [pool.submit(refusal, server, "ann", "wrong") for _ in range(4 * password_throttle.PENDING)]
            began = time.monotonic()
            with psycopg.connect(server.dsn) as connection:  # the loop is not held up
                connection.execute("SELECT 1")
            assert time.monotonic() - began < max(1.0, quick)
            told = [future.result() for future in flood]
        assert any("too many wrong passwords from this address" in text for text in told)
        with connect(server, "ann", "right") as connection:
            connection.execute("SELECT 1")
