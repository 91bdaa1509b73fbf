"""SIGHUP and pg_reload_conf(): what changes while the server runs, what is wrong, and that it never ends a process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.oracle import free_port
from tests.replication.stores.certificates import make_certificate
from tests.server import ShoalServer

TRUST = "host all all 127.0.0.1/32 trust\n"
LIMIT = 30.0  # seconds


class ConfiguredServer(ShoalServer):
    """With a configuration file, host rules, a certificate and an administration port."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.admin = free_port()
        self.rules, self.config = folder / "hosts", folder / "shoal.toml"
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.rules.write_text(TRUST)
        self.certify("first")
        self.write()

    def certify(self, name: str) -> bytes:
        """Another certificate at the same place; as DER."""
        place = self.folder / name
        place.mkdir()
        made = make_certificate(place, name)
        shutil.copy(made.cert, self.cert)
        shutil.copy(made.key, self.key)
        return ssl.PEM_cert_to_DER_cert(self.cert.read_text())

    def write(self, **more: object) -> None:
        values: dict[str, object] = {
            "host_rules": str(self.rules), "tls_cert": str(self.cert), "tls_key": str(self.key),
            "admin": f"https://127.0.0.1:{self.admin}", **more,
        }  # fmt: skip
        lines = [
            f"{name} = {str(value).lower() if isinstance(value, bool) else repr(value)}"
            for name, value in values.items()
        ]
        self.config.write_text("\n".join(lines).replace("'", '"') + "\n")

    def command(self) -> list[str]:
        return [*super().command(), "--config", str(self.config)]

    def logged(self, text: str, times: int = 1) -> bool:
        return until(lambda: self.log.read_text().count(text) >= times)


def until(found: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LIMIT
    while not found():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConfiguredServer]:
    with ConfiguredServer(tmp_path) as found:
        yield found


def hang_up(server: ConfiguredServer) -> None:
    times = server.log.read_text().count("the configuration was reloaded")
    os.kill(server.pid, signal.SIGHUP)
    assert server.logged("the configuration was reloaded", times + 1)


def call(server: ConfiguredServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")


def shown(port: int, starts: bool) -> bytes:
    """The certificate of a port, as DER; `starts`: of one that is asked for TLS first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), LIMIT) as raw:
        if starts:
            raw.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47]))
            assert raw.recv(1) == b"S"
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as secure:
            return secure.getpeercert(True) or b""


@pytest.mark.parametrize("again", [hang_up, call])
def test_rules_certificates_and_the_log_change_while_clients_stay(
    server: ConfiguredServer, again: Callable[[ConfiguredServer], None]
) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as stays, psycopg.connect(server.dsn, autocommit=True) as own:
        stays.execute("CREATE ROLE ann LOGIN")
        own.execute("SET log_min_duration_statement = 7000")
        psycopg.connect(server.dsn, user="ann").close()
        second = server.certify("second")
        server.rules.write_text("host all ann all reject\n" + TRUST)
        server.write(log_min_duration_statement=5000, log_format="json", max_connections=20, columnar_threads=1)
        again(server)
        with pytest.raises(psycopg.OperationalError, match="no host rule allows"):
            psycopg.connect(server.dsn, user="ann")
        assert shown(server.port, True) == shown(server.admin, False) == second
        assert stays.execute("SHOW log_min_duration_statement").fetchone() == ("5s",)
        assert own.execute("SHOW log_min_duration_statement").fetchone() == ("7s",)
        with psycopg.connect(server.dsn) as new:
            assert new.execute("SHOW log_min_duration_statement").fetchone() == ("5s",)
        assert server.logged('\\"columnar_threads\\" cannot be changed without restarting the server')


WRONG = {
    "a rule": lambda server: server.rules.write_text("host all all nowhere trust\n"),
    "no rules": lambda server: server.rules.unlink(),
    "a certificate": lambda server: server.cert.write_text("none"),
    "a key of another": lambda server: shutil.copy(server.cert, server.key),
    "a setting": lambda server: server.write(no_such_setting=1),
    "a value": lambda server: server.write(max_connections="many"),
    "a format": lambda server: server.write(log_format="xml"),
    "no TOML": lambda server: server.config.write_text("="),
    "no file": lambda server: server.config.unlink(),
    "no certificate for the other port": lambda server: server.write(tls_cert="", tls_key=""),
}


@pytest.mark.parametrize("again", [hang_up, call])
def test_what_is_wrong_leaves_all_as_it_is(server: ConfiguredServer, again: Callable[[ConfiguredServer], None]) -> None:
    first = shown(server.port, True)
    rules, config, key = server.rules.read_text(), server.config.read_text(), server.key.read_text()
    cert = server.cert.read_text()
    for number, (name, spoil) in enumerate(WRONG.items(), 1):
        server.rules.write_text("host all all all reject\n")  # not in force, as long as something else is wrong
        spoil(server)
        again(server)
        assert server.logged("the configuration was not reloaded", number), name
        assert shown(server.port, True) == shown(server.admin, False) == first, name
        psycopg.connect(server.dsn).close()
        server.rules.write_text(rules)
        server.config.write_text(config)
        server.cert.write_text(cert)
        server.key.write_text(key)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        assert connection.execute("SELECT pg_reload_conf()").fetchone() == (True,)
        server.config.write_text("=")
        assert connection.execute("SELECT pg_reload_conf()").fetchone() == (False,)


def test_who_is_no_superuser_reads_nothing_again(server: ConfiguredServer) -> None:
    with psycopg.connect(server.dsn, autocommit=True) as owner:
        owner.execute("CREATE ROLE ann LOGIN")
    with psycopg.connect(server.dsn, user="ann") as ann, pytest.raises(psycopg.errors.InsufficientPrivilege):
        ann.execute("SELECT pg_reload_conf()")


def test_a_hangup_ends_no_server(server: ConfiguredServer) -> None:
    for _ in range(20):
        os.kill(server.pid, signal.SIGHUP)
    with psycopg.connect(server.dsn) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert server.stop() == 0
