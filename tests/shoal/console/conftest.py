"""A server with a console, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.shoal.console.server import ApiClient, ConsoleServer


@pytest.fixture(scope="package")
def console() -> Iterator[ConsoleServer]:
    """With role ann, whose password is 'right', and a table of hers that others may not read."""
    with ConsoleServer() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
            connection.execute("CREATE TABLE secrets (id int PRIMARY KEY, word text)")
            connection.execute("INSERT INTO secrets VALUES (1, 'sesame')")
        yield server


@pytest.fixture
def api(console: ConsoleServer) -> ApiClient:
    """Nobody is logged in yet."""
    return ApiClient(console.admin_port)


@pytest.fixture
def owner(api: ApiClient) -> ApiClient:
    """The superuser is logged in."""
    assert api.log_in()[0] == 200
    return api
