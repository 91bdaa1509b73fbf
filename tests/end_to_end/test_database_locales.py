"""CREATE DATABASE with a locale: what pg_database and SHOW say of it, and which letters upper, lower and the others
know in it; on PostgreSQL too."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.oracle import PostgresServer
from tests.server import ShoalServer

_NAMES = ("lettered", "branch_of_lettered")


@pytest.fixture
def maker(server: ShoalServer | PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        yield connection
        for name in reversed(_NAMES):
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                connection.execute(f"ALTER DATABASE {name} IS_TEMPLATE false")
                connection.execute(f"DROP DATABASE {name}")


@pytest.fixture
def dsn(server: ShoalServer | PostgresServer) -> str:
    return server.dsn.replace("dbname=postgres", "dbname=lettered")


def _columns(connection: psycopg.Connection, name: str) -> tuple[object, ...] | None:
    query = (
        "SELECT datcollate, datctype, datlocprovider, datconnlimit, datallowconn, datistemplate FROM pg_database"
        " WHERE datname = %s"
    )
    return connection.execute(query, (name,)).fetchone()


@pytest.mark.parametrize("path", ["auto", "columnar"])
@pytest.mark.parametrize(
    ("options", "ascii_only"),
    [
        ("LC_COLLATE 'C' LC_CTYPE 'C'", True),
        ("LOCALE 'C'", True),
        ("LOCALE 'POSIX'", True),
        ("LOCALE 'C.UTF-8'", False),
        ("LOCALE 'C' LC_CTYPE 'C.UTF-8'", False),
        ("LC_CTYPE = 'C' ENCODING 'UTF8'", True),
    ],
)
def test_letters_are_those_of_the_databases_locale(
    maker: psycopg.Connection, dsn: str, options: str, ascii_only: bool, path: str
) -> None:
    maker.execute(f"CREATE DATABASE lettered {options} TEMPLATE template0".encode())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET shoal.path = {path}".encode())
        (ctype,) = connection.execute("SELECT datctype FROM pg_database WHERE datname = 'lettered'").fetchone() or ("",)
        assert connection.execute("SHOW lc_ctype").fetchone() == (ctype,)
        assert connection.execute("SELECT current_setting('lc_ctype')").fetchone() == (ctype,)
        assert (ctype in ("C", "POSIX")) is ascii_only
        connection.execute("CREATE TABLE words (id int, a text, big text GENERATED ALWAYS AS (upper(a)) STORED)")
        connection.execute("CREATE TABLE kept (a text CHECK (lower(a) <> 'zé')); CREATE INDEX ON kept (upper(a))")
        connection.execute(
            "CREATE UNIQUE INDEX ON kept (lower(a)); CREATE VIEW seen AS SELECT initcap(a) AS x FROM words"
        )
        connection.execute("INSERT INTO words VALUES (1, 'éa'), (2, 'ÉA'), (3, 'straße'), (4, 'zÉ')")
        connection.execute("INSERT INTO kept SELECT a FROM words WHERE id = 1")
        if ascii_only:
            connection.execute("INSERT INTO kept SELECT a FROM words WHERE id IN (2, 4)")
        else:
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute("INSERT INTO kept SELECT a FROM words WHERE id = 2")
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("INSERT INTO kept SELECT a FROM words WHERE id = 4")
        row = connection.execute("SELECT big, lower(a), a ILIKE 'ÉA' FROM words WHERE id = 1").fetchone()
        assert row == (("éA", "éa", False) if ascii_only else ("ÉA", "éa", True))
        row = connection.execute("SELECT upper('é'), lower('É'), initcap('éa éa'), upper(%s)", ("é",)).fetchone()
        assert row == (("é", "É", "éA éA", "é") if ascii_only else ("É", "é", "Éa Éa", "É"))
        found = connection.execute("SELECT count(DISTINCT lower(a)), max(upper(a)) FROM words").fetchone()
        assert found is not None
        assert found[0] == (4 if ascii_only else 3)
        by_index = connection.execute("SELECT a FROM kept WHERE upper(a) = upper('éa')").fetchall()
        assert by_index == [("éa",)]
        shown = connection.execute('SELECT x FROM seen ORDER BY x COLLATE "C" LIMIT 1').fetchone()
        assert shown is not None
        assert connection.execute("SELECT upper('é' COLLATE \"C\")").fetchone() == ("é",)


def test_a_branch_has_its_parents_locale(maker: psycopg.Connection) -> None:
    maker.execute("CREATE DATABASE lettered LOCALE 'C' TEMPLATE template0")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="incompatible with the LC_CTYPE of the template"):
        maker.execute("CREATE DATABASE branch_of_lettered LC_CTYPE 'C.UTF-8' TEMPLATE lettered")
    maker.execute("CREATE DATABASE branch_of_lettered TEMPLATE lettered")
    assert (_columns(maker, "branch_of_lettered") or ())[:2] == ("C", "C")


def test_options_are_kept_or_refused(maker: psycopg.Connection) -> None:
    maker.execute(
        "CREATE DATABASE lettered ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0 ALLOW_CONNECTIONS false"
        " CONNECTION LIMIT 3 IS_TEMPLATE true"
    )
    assert _columns(maker, "lettered") == ("C.UTF-8", "C.UTF-8", "c", 3, False, True)
    for options, sqlstate in (
        ("LC_CTYPE 'xx_YY.UTF-8' TEMPLATE template0", "42809"),
        ("LC_COLLATE 'xx_YY.UTF-8' TEMPLATE template0", "42809"),
        ("SHAPE 'round'", "42601"),
    ):
        with pytest.raises(psycopg.Error) as raised:
            maker.execute(f"CREATE DATABASE branch_of_lettered {options}".encode())
        assert raised.value.sqlstate == sqlstate, options
