"""A Shoal process with its administration port, and a client of the console's API."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import ssl
from typing import Any

from tests.oracle import free_port
from tests.replication.stores.certificates import Certificate
from tests.server import ShoalServer


class ConsoleServer(ShoalServer):
    """With the console on `admin_port`; `rules` is a file of host rules, None: there are none. With a certificate the
    console is served with TLS."""

    rules: pathlib.Path | None = None
    certificate: Certificate | None = None

    def __init__(self) -> None:
        super().__init__()
        self.admin_port = free_port()

    def command(self) -> list[str]:
        rules = [] if self.rules is None else ["--host-rules", str(self.rules)]
        if self.certificate is None:
            return [*super().command(), "--admin", f"127.0.0.1:{self.admin_port}", *rules]
        tls = ["--tls-cert", self.certificate.cert, "--tls-key", self.certificate.key]
        return [*super().command(), "--admin", f"https://127.0.0.1:{self.admin_port}", *tls, *rules]


class ApiClient:
    """What a browser would send: its cookies, and the token of its login. With TLS if it has an authority to trust."""

    def __init__(self, port: int, authority: str = "") -> None:
        self.port = port
        self._tls = ssl.create_default_context(cafile=authority) if authority else None
        self.cookies: dict[str, str] = {}
        self.token = ""
        self.headers: dict[str, str] = {}  # of the last answer, names in small letters

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str | None] | None = None
    ) -> tuple[int, Any]:
        """Status and answer; the answer's text where it is not JSON. A header that is None is not sent."""
        sent: dict[str, str | None] = {"X-Shoal-Token": self.token}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            if self._tls is None
            else http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self._tls)
        )
        with contextlib.closing(connection):
            connection.request(method, path, data, {name: value for name, value in sent.items() if value is not None})
            answer = connection.getresponse()
            text = answer.read().decode()
            self.headers = {name.lower(): value for name, value in answer.getheaders()}
            self.set_cookie = answer.getheader("Set-Cookie", "")
        if self.set_cookie:
            name, _, value = self.set_cookie.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def get(self, path: str) -> tuple[int, Any]:
        return self.ask("GET", path)

    def post(self, path: str, body: object) -> tuple[int, Any]:
        return self.ask("POST", path, body)

    def log_in(self, user: str = "postgres", password: str = "", database: str = "postgres") -> tuple[int, Any]:
        status, answer = self.post("/api/login", {"user": user, "password": password, "database": database})
        if status == 200:
            self.token = answer["token"]
        return status, answer

    def run(self, sql: str, tab: str = "one", **more: object) -> tuple[int, Any]:
        return self.post("/api/sql", {"tab": tab, "sql": sql, **more})

    def rows(self, sql: str, tab: str = "one", **more: object) -> Any:
        status, answer = self.run(sql, tab, **more)
        assert status == 200, answer
        return answer["rows"]
