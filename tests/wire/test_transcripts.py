"""Every transcript in this folder, against Shoal and against PostgreSQL."""

from __future__ import annotations

import pathlib

import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer
from tests.wire.transcript import Script, agrees, encode, parse, run

FILES = sorted(pathlib.Path(__file__).parent.glob("*.pgtest"))
SCRIPTS = [
    pytest.param(script, id=f"{path.stem}:{script.line} {script.name}")
    for path in FILES
    for script in parse(path.read_text())
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_transcript(server: ShoalServer | PostgresServer, script: Script) -> None:
    name = "shoal" if isinstance(server, ShoalServer) else "postgres"
    if script.only not in ("", name):
        pytest.skip(f"for {script.only}")
    run(server.dsn, script)


def test_a_difference_is_noticed(server: ShoalServer | PostgresServer) -> None:
    for answer in ('DataRow ["2"]', "CommandComplete SELECT 1"):
        script = Script("planted", 1, lines=['> Query "SELECT 1"', "< RowDescription []", f"< {answer}"])
        with pytest.raises(AssertionError):
            run(server.dsn, script)
    with pytest.raises(AssertionError, match="after the last expected message"):
        run(server.dsn, Script("planted", 1, lines=['> Query "SELECT 1 WHERE false"', "> Sync"]))


def test_only_named_fields_of_an_error_are_compared() -> None:
    got = 'ErrorResponse {"S": "ERROR", "C": "22012", "M": "division by zero"}'
    assert agrees('ErrorResponse {"C": "22012"}', got)
    assert not agrees('ErrorResponse {"C": "22003"}', got)
    assert not agrees('ErrorResponse {"P": "1"}', got)


def test_lines_become_messages() -> None:
    assert encode('> Query "SELECT 1"') == b"Q\0\0\0\x0dSELECT 1\0"
    assert encode("> Sync") == b"S\0\0\0\x04"
    assert encode('> Execute {"portal": "p", "limit": 3}') == b"E\0\0\0\x0ap\0\0\0\0\x03"
