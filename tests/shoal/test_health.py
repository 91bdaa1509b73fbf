"""`shoal health`, and what images and compose.yaml ask with it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from shoal.cli import main, parser
from shoal.config import Config
from tests.oracle import free_port
from tests.server import ROOT, ShoalServer

Capture = pytest.CaptureFixture[str]


def asked(capsys: Capture, *options: str) -> tuple[int, str]:
    status = main(["health", *options])
    output = capsys.readouterr()
    return status, (output.out + output.err).strip()


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port on which whoever connects is told this."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_server_answers(shoal: ShoalServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shoal.log.read_text()
    assert asked(capsys, f"127.0.0.1:{shoal.port}") == (0, f"127.0.0.1:{shoal.port} answers")
    monkeypatch.setenv("SHOAL_LISTEN", f"0.0.0.0:{shoal.port}")
    status, told = asked(capsys, "--json")
    assert status == 0 and json.loads(told) == {"address": f"0.0.0.0:{shoal.port}", "healthy": True, "why": ""}
    assert shoal.log.read_text() == before


def test_the_administration_port_answers(capsys: Capture, tmp_path: pathlib.Path) -> None:
    port = free_port()

    class Administered(ShoalServer):
        def command(self) -> list[str]:
            return [*super().command(), "--admin", f"127.0.0.1:{port}"]

    with Administered(tmp_path / "data"):
        assert asked(capsys, f"http://127.0.0.1:{port}/readyz")[0] == 0
        status, told = asked(capsys, f"http://127.0.0.1:{port}/nowhere")
        assert status == 1 and told.endswith(": 404")


@pytest.mark.parametrize("answer", [b"S", b"N", b"H", b""])
def test_who_speaks_something_else_is_no_server(capsys: Capture, answer: bytes) -> None:
    with answering(answer) as port:
        status, told = asked(capsys, f"127.0.0.1:{port}")
    assert (status, "does not answer like a PostgreSQL server" in told) == (
        (0, False) if answer in b"SN" and answer else (1, True)
    )


def test_a_page_says_why_not(capsys: Capture) -> None:
    text = b'{"ready":false,"why":"ZooKeeper cannot be reached"}'
    head = b"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text)
    with answering(head + text) as port:
        status, told = asked(capsys, f"http://127.0.0.1:{port}/readyz")
    assert status == 1 and told.endswith("503 ZooKeeper cannot be reached")


def test_an_address_without_a_listener(capsys: Capture) -> None:
    for address in (f"127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}/readyz"):
        status, told = asked(capsys, address)
        assert status == 1 and "Connection refused" in told and len(told.splitlines()) == 1
    status, told = asked(capsys, "nowhere")
    assert status == 1 and told.startswith('shoal: "nowhere" is not HOST:PORT')


def test_the_image_says_where_it_listens_and_asks_there(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "Dockerfile").read_text()
    (port,) = re.findall(r"^EXPOSE (\d+)$", text, re.M)
    assert Config().address[1] == int(port)
    (command,) = re.findall(r"^HEALTHCHECK .*CMD (\[.*\])$", text, re.M)
    assert parser().parse_args(json.loads(command)[1:]).address is None
    assert "SHOAL_LISTEN" not in os.environ and json.loads(command)[0] == "shoal"


def test_health_checks_of_compose_use_the_address_of_their_service() -> None:
    for name, service in yaml.safe_load((ROOT / "compose.yaml").read_text())["services"].items():
        if service.get("image") != "shoal":
            continue
        given = parser().parse_args(shlex.split(service["command"]))
        address = parser().parse_args(service["healthcheck"]["test"][2:]).address
        place = f"{given.http}/health" if given.command == "router" else f"{given.admin}/readyz"
        assert service["healthcheck"]["test"][:2] == ["CMD", "shoal"] and address == f"http://{place}", name
