"""Django: its own migrations, an application's tables, queries and changes, inspectdb. What an application prints on
Shoal is what it prints on PostgreSQL."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.drivers.conftest import SCHEMA, AnyServer
from tests.oracle import PostgresServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
_expected: list[str] = []


def _lines(server: AnyServer) -> list[str]:
    """What the project prints, in the schema that is there."""
    settings = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.drivers.django_project.settings",
        "SHOAL_TEST_PORT": str(server.port),
        "SHOAL_TEST_SCHEMA": SCHEMA,
    }
    command = [sys.executable, "-m", "tests.drivers.django_project.run"]
    done = subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("server", ["postgres", "shoal", "follower"], indirect=True)
def test_an_application_sees_what_it_sees_in_postgresql(server: AnyServer, schema: str) -> None:
    found = _lines(server)
    if isinstance(server, PostgresServer):
        _expected[:] = found
        assert len(found) > 200
    else:
        assert found == _expected
