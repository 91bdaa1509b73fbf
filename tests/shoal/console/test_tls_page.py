"""The console over TLS in Chromium, which trusts the node's key and no other."""

from __future__ import annotations

import base64
import hashlib
import pathlib
import subprocess
from collections.abc import Iterator

import psycopg
import pytest
from playwright.sync_api import Error, expect

from tests.replication.stores.certificates import Certificate, make_certificate
from tests.shoal.console.browser import Watched, chromium
from tests.shoal.console.server import ConsoleServer


def _pin(certificate: Certificate) -> str:
    """Chromium's option to trust the key."""
    words = ["openssl", "x509", "-in", certificate.cert, "-pubkey", "-noout"]
    pem = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    key = base64.b64decode("".join(pem.splitlines()[1:-1]))
    return f"--ignore-certificate-errors-spki-list={base64.b64encode(hashlib.sha256(key).digest()).decode()}"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    """Who comes with TLS needs a password."""
    folder = tmp_path_factory.mktemp("tls")
    server = ConsoleServer()
    server.rules, server.certificate = folder / "hosts", make_certificate(folder, "node")
    server.rules.write_text("hostnossl all all 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n")
    with server:
        with psycopg.connect(server.dsn, sslmode="disable", autocommit=True) as connection:
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
        yield server


def test_the_console_works_over_tls_and_its_cookie_stays_there(node: ConsoleServer) -> None:
    assert node.certificate is not None
    with chromium(_pin(node.certificate)) as browser:
        window = Watched(browser, node.admin_port, tls=True)
        window.open()
        window.page.fill("input[name=user]", "ann")
        window.page.fill("input[name=password]", "wrong")
        window.page.keyboard.press("Enter")
        expect(window.page.get_by_role("alert")).to_have_text('password authentication failed for user "ann" 28P01')
        window.log_in("ann", "right")
        assert window.page.evaluate("isSecureContext && location.protocol") == "https:"
        (cookie,) = window.page.context.cookies()
        assert cookie["secure"] and cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        window.page.reload()  # the login outlives it
        window.page.wait_for_selector(".map")
        window.open("sql")
        window.run("SELECT current_user || ' of six times ' || 6 * 7")
        expect(window.page.get_by_text("ann of six times 42")).to_be_visible()
        window.close()
        assert not window.troubles


def test_a_browser_that_does_not_know_the_certificate_goes_no_further(
    node: ConsoleServer, tmp_path: pathlib.Path
) -> None:
    with chromium(_pin(make_certificate(tmp_path, "another"))) as browser:
        window = Watched(browser, node.admin_port, tls=True)
        with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
            window.open()
        in_the_clear = Watched(browser, node.admin_port)
        with pytest.raises(Error, match="net::ERR_"):
            in_the_clear.open()
